-- Processes, and who may write: see docs/architecture.md.
CREATE TABLE incarnations (
  id text PRIMARY KEY,
  host text NOT NULL,
  slot integer NOT NULL,
  role text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT now(),
  died_at timestamptz
);

CREATE TABLE lanes (
  incarnation text NOT NULL REFERENCES incarnations ON DELETE CASCADE,
  lane smallint NOT NULL,
  generation integer NOT NULL DEFAULT 1,
  PRIMARY KEY (incarnation, lane)
);

CREATE TABLE shards (
  shard smallint PRIMARY KEY,
  owner text,
  epoch bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO shards (shard) SELECT generate_series(0, 1023);

CREATE TABLE outbox (
  shard smallint NOT NULL,
  number bigint NOT NULL,
  -- The last id minted in the shard when this was written; the newest row of a shard is never deleted.
  last_id bigint NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (shard, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_insert_scale_factor = 0,
        autovacuum_vacuum_insert_threshold = 100000, autovacuum_vacuum_cost_delay = 1, toast_tuple_target = 8160);

-- What a receiver has committed of another shard's tells.
CREATE TABLE tells_seen (
  shard smallint NOT NULL,
  source smallint NOT NULL,
  number bigint NOT NULL,
  item integer NOT NULL,
  home bigint NOT NULL,
  seen_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (shard, source, number, item)
);

CREATE TABLE users (
  id bigint PRIMARY KEY,
  username text NOT NULL,
  email text,
  password_hash text,
  created_at bigint NOT NULL,
  email_verified boolean NOT NULL DEFAULT true,
  age_verified boolean NOT NULL DEFAULT false,
  totp_enabled boolean NOT NULL DEFAULT false,
  badges text[] NOT NULL DEFAULT '{}',
  tier text NOT NULL DEFAULT 'standard',
  bot boolean NOT NULL DEFAULT false
);
CREATE UNIQUE INDEX users_username ON users (lower(username));
CREATE UNIQUE INDEX users_email ON users (lower(email));

CREATE TABLE sessions (
  id bigint PRIMARY KEY,
  user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
  token_hash text NOT NULL,
  ip_address text NOT NULL,
  user_agent text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  last_activity bigint NOT NULL
);
CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX sessions_expiry ON sessions (expires_at);

-- Failed sign-ins by lower-cased name or address, known or not.
CREATE TABLE failed_logins (
  name text PRIMARY KEY,
  failures integer NOT NULL,
  locked_until bigint NOT NULL DEFAULT 0,
  last_at bigint NOT NULL
);

CREATE TABLE servers (
  id bigint PRIMARY KEY,
  name text NOT NULL,
  description text,
  icon_url text,
  owner_id bigint NOT NULL REFERENCES users,
  member_count integer NOT NULL,
  default_channel_id bigint,
  verification_level integer NOT NULL DEFAULT 0,
  default_message_notifications integer NOT NULL DEFAULT 0,
  public boolean NOT NULL DEFAULT false,
  category text,
  created_at bigint NOT NULL
);
CREATE INDEX servers_owner ON servers (owner_id);

CREATE TABLE roles (
  id bigint PRIMARY KEY,
  server_id bigint NOT NULL REFERENCES servers ON DELETE CASCADE,
  name text NOT NULL,
  color text NOT NULL,
  position integer NOT NULL,
  hoist boolean NOT NULL,
  mentionable boolean NOT NULL,
  permissions text[] NOT NULL
);
CREATE INDEX roles_server ON roles (server_id);

CREATE TABLE members (
  server_id bigint NOT NULL REFERENCES servers ON DELETE CASCADE,
  user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
  joined_at bigint NOT NULL,
  nickname text,
  roles bigint[] NOT NULL DEFAULT '{}',
  PRIMARY KEY (server_id, user_id)
);
CREATE INDEX members_user ON members (user_id, server_id);

CREATE TABLE bans (
  server_id bigint NOT NULL REFERENCES servers ON DELETE CASCADE,
  user_id bigint NOT NULL,
  reason text NOT NULL,
  banned_by bigint NOT NULL,
  banned_at bigint NOT NULL,
  PRIMARY KEY (server_id, user_id)
);

CREATE TABLE channels (
  id bigint PRIMARY KEY,
  server_id bigint NOT NULL REFERENCES servers ON DELETE CASCADE,
  name text NOT NULL,
  channel_type text NOT NULL,
  topic text,
  position integer NOT NULL,
  category_id bigint,
  nsfw boolean NOT NULL,
  slowmode_seconds integer NOT NULL,
  read_receipts_enabled boolean NOT NULL,
  created_at bigint NOT NULL
);
CREATE INDEX channels_server ON channels (server_id);

CREATE TABLE invites (
  code text PRIMARY KEY,
  server_id bigint NOT NULL REFERENCES servers ON DELETE CASCADE,
  channel_id bigint,
  inviter_id bigint,
  max_age integer NOT NULL,
  max_uses integer NOT NULL,
  temporary boolean NOT NULL,
  uses integer NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint
);
CREATE INDEX invites_server ON invites (server_id);
CREATE INDEX invites_expiry ON invites (expires_at);

-- Creation time is in the id. A page of history is one index range of one partition.
CREATE TABLE messages (
  channel_id bigint NOT NULL,
  id bigint NOT NULL,
  server_id bigint,
  author_id bigint NOT NULL,
  content text,
  edited_at bigint,
  reply_to_id bigint,
  nonce text,
  -- What is left of a deleted message that had a nonce: a repeat of the nonce makes no second message.
  deleted boolean NOT NULL DEFAULT false,
  PRIMARY KEY (channel_id, id)
) PARTITION BY HASH (channel_id);
DO $$
BEGIN
  FOR part IN 0..15 LOOP
    EXECUTE format('CREATE TABLE messages_%s PARTITION OF messages FOR VALUES WITH (MODULUS 16, REMAINDER %s)', part, part);
    EXECUTE format('CREATE UNIQUE INDEX messages_%s_nonce ON messages_%s (channel_id, author_id, nonce) WHERE nonce IS NOT NULL', part, part);
  END LOOP;
END $$;
CREATE UNIQUE INDEX messages_nonce ON messages (channel_id, author_id, nonce) WHERE nonce IS NOT NULL;

