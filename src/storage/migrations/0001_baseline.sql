-- The whole schema of the first version. A later change is a file of its own: one that has run never changes.

-- Processes, and who may write: see docs/internals/architecture.md.
CREATE TABLE incarnations (
  id text PRIMARY KEY,
  host text NOT NULL,
  slot integer NOT NULL,
  role text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT now(),
  died_at timestamptz,
  -- A worker that was silent for too long counts its lives up before it serves again, so that whoever was about to declare it
  -- dead for that silence finds that it is out of date. One that made its log anew in another Redis says so in `log_at`: what a
  -- worker makes after it was declared dead is nobody's log.
  lives int NOT NULL DEFAULT 0,
  log_at text
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
  bot boolean NOT NULL DEFAULT false,
  -- A bot's owner.
  owner_id bigint REFERENCES users ON DELETE CASCADE,
  -- Of the whole service; those of servers are roles.
  permissions text[] NOT NULL DEFAULT '{}',
  tier_expires_at bigint,
  tier_notes text,
  -- The address is known to be his: a mail to it was answered, or a provider vouched for it.
  email_confirmed boolean NOT NULL DEFAULT false,
  -- By an operator; Unix seconds, 0: not.
  locked_until bigint NOT NULL DEFAULT 0,
  lock_reason text,
  must_rename boolean NOT NULL DEFAULT false,
  rename_reason text,
  deletion_status text NOT NULL DEFAULT 'active' CHECK (deletion_status IN ('active', 'frozen', 'purged')),
  deletion_at bigint,
  -- Sealed with the server's secret key; there without `totp_enabled` while it waits to be confirmed.
  totp_secret text,
  -- The latest time step whose code was accepted.
  totp_step bigint NOT NULL DEFAULT 0,
  -- Keyed digests.
  backup_codes text[] NOT NULL DEFAULT '{}'
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

-- No foreign key to the server: there may be a hundred thousand members. A job deletes what is left of a server that is gone, and
-- until then the server's row is what says that anybody is a member of it. The same holds for bans.
CREATE TABLE members (
  server_id bigint NOT NULL,
  user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
  joined_at bigint NOT NULL,
  nickname text,
  roles bigint[] NOT NULL DEFAULT '{}',
  -- Until when somebody may only read, in Unix seconds; and members who go when their last session has ended.
  timeout_until bigint,
  timeout_reason text,
  temporary boolean NOT NULL DEFAULT false,
  -- The id that was minted as somebody joined: what is below it was there before him.
  since_id bigint,
  PRIMARY KEY (server_id, user_id)
);
CREATE INDEX members_user ON members (user_id, server_id);

CREATE TABLE bans (
  server_id bigint NOT NULL,
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
  created_at bigint NOT NULL,
  user_limit int NOT NULL DEFAULT 0,
  bitrate int NOT NULL DEFAULT 64000
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
  expires_at bigint,
  -- When it expired or was used up, in Unix seconds: it stays in the list. A revoked one has no row.
  ended_at bigint
);
CREATE INDEX invites_server ON invites (server_id, ended_at);
CREATE INDEX invites_expiry ON invites (expires_at) WHERE ended_at IS NULL;

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
  -- Of messages that a webhook sent: their author is the webhook, with the name and the picture of that moment.
  webhook_id bigint,
  webhook_name text,
  webhook_avatar_url text,
  -- As they were sent: jsonb would write numbers out, which can make much of little.
  embeds json,
  -- What a message has beside its text stands with it, so that a page of history is one index range.
  attachments json,
  -- How often each emoji was used, in the order of first use.
  reactions json,
  poll json,
  -- Unix milliseconds.
  pinned_at bigint,
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
-- What a channel allows or denies a role or a member beside what they have in the server, as sums of two to the power of
-- permissions' bits (domain/core/permission-masks.ts).
CREATE TABLE channel_overrides (
  channel_id bigint NOT NULL REFERENCES channels ON DELETE CASCADE,
  target_id bigint NOT NULL,
  server_id bigint NOT NULL REFERENCES servers ON DELETE CASCADE,
  type text NOT NULL,
  allow bigint NOT NULL,
  deny bigint NOT NULL,
  PRIMARY KEY (channel_id, target_id)
);
CREATE INDEX channel_overrides_server ON channel_overrides (server_id);
-- The replication id of the Redis in which the cluster's first worker started: under it keys bear no mark. Redis itself cannot
-- be asked: one that comes back empty would name another, and workers of before and after would not find one another.
CREATE TABLE redis_origin (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  id text NOT NULL
);
-- What a user chose to show, and when others last saw him. Whether he is there is in no table: his gateway sessions say so.
CREATE TABLE presences (
  user_id bigint PRIMARY KEY REFERENCES users ON DELETE CASCADE,
  status text NOT NULL DEFAULT 'online' CHECK (status IN ('online', 'idle', 'dnd', 'invisible', 'offline')),
  custom_status text,
  custom_emoji text,
  activities jsonb NOT NULL DEFAULT '[]',
  -- Unix seconds.
  last_seen bigint
);
-- What one user is to another, one row per side. Both rows of a pair are written by one home: see src/domain/social/relationships.ts.
CREATE TABLE relationships (
  user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
  other_id bigint NOT NULL REFERENCES users ON DELETE CASCADE CHECK (other_id <> user_id),
  status text NOT NULL CHECK (status IN ('friend', 'pending_incoming', 'pending_outgoing', 'blocked')),
  -- Of an incoming request.
  message text,
  created_at bigint NOT NULL,
  PRIMARY KEY (user_id, other_id)
);
CREATE INDEX relationships_other ON relationships (other_id, user_id);

-- Who is in which voice channel; a server's home writes it. `worker` holds the gateway session that holds the call.
CREATE TABLE voice_states (
  server_id bigint NOT NULL,
  user_id bigint NOT NULL,
  channel_id bigint NOT NULL REFERENCES channels ON DELETE CASCADE,
  voice_session_id text NOT NULL,
  worker text NOT NULL,
  gateway_session_id text NOT NULL,
  self_mute boolean NOT NULL,
  self_deaf boolean NOT NULL,
  self_video boolean NOT NULL,
  self_stream boolean NOT NULL,
  suppress boolean NOT NULL,
  joined_at bigint NOT NULL,
  PRIMARY KEY (server_id, user_id)
);
CREATE INDEX voice_states_channel ON voice_states (channel_id);
CREATE INDEX voice_states_worker ON voice_states (worker);

-- A user's newest call, as his home was told, and when his allowance of the day ends it; in milliseconds.
CREATE TABLE voice_calls (
  user_id bigint PRIMARY KEY REFERENCES users ON DELETE CASCADE,
  server_id bigint NOT NULL,
  channel_id bigint NOT NULL,
  voice_session_id text NOT NULL,
  began_at bigint NOT NULL,
  ends_at bigint
);
CREATE INDEX voice_calls_ends ON voice_calls (ends_at) WHERE ends_at IS NOT NULL;

-- Seconds in voice of a day of UTC, counted from 1970.
CREATE TABLE voice_usage (
  user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
  day int NOT NULL,
  seconds int NOT NULL,
  PRIMARY KEY (user_id, day)
);
CREATE INDEX voice_usage_day ON voice_usage (day);
-- What is so for the service as a whole; every web worker looks at this one row once a second.
CREATE TABLE service (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'maintenance', 'shutting_down', 'restarting')),
  message text,
  estimated_downtime_seconds bigint,
  restart_at bigint,
  changed_at bigint NOT NULL DEFAULT extract(epoch FROM now())::bigint,
  -- How often the state was set, everybody was logged out, the blocked addresses were changed.
  changes bigint NOT NULL DEFAULT 0,
  resets bigint NOT NULL DEFAULT 0,
  blocks_version bigint NOT NULL DEFAULT 0,
  -- Sessions up to this id ended with the latest reset.
  reset_until bigint NOT NULL DEFAULT 0,
  -- How often the access tokens were changed.
  access_version bigint NOT NULL DEFAULT 0,
  -- What the secret key of every worker has to answer to.
  secret_key_id text
);
INSERT INTO service DEFAULT VALUES;

CREATE TABLE address_blocks (
  address inet PRIMARY KEY,
  reason text,
  blocked_at bigint NOT NULL,
  -- The operator's account; null: at the machine itself.
  blocked_by bigint,
  expires_at bigint
);

-- What an operator has asked running servers to do. Whoever takes a request does it again if its worker dies: each can be repeated.
CREATE TABLE operator_requests (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind text NOT NULL,
  user_id bigint,
  message text,
  -- Of sessions: up to this id.
  until_id bigint,
  asked_at bigint NOT NULL DEFAULT extract(epoch FROM now())::bigint,
  taken_by text,
  -- By PostgreSQL's clock: until then nobody else takes it.
  taken_until timestamptz,
  attempts integer NOT NULL DEFAULT 0,
  done_at timestamptz,
  -- Sessions that were ended; the code of a refusal.
  ended bigint,
  refusal text,
  -- Users whose sessions a finished logout of everybody could not take away. `ended` counts while it is under way, too.
  failed bigint
);
CREATE INDEX operator_requests_open ON operator_requests (id) WHERE done_at IS NULL;
-- Names by their beginnings, whatever the database's collation.
CREATE INDEX users_name_beginning ON users (lower(username) text_pattern_ops);
CREATE INDEX members_nickname_beginning ON members (server_id, lower(nickname) text_pattern_ops) WHERE nickname IS NOT NULL;
CREATE INDEX users_owner ON users (owner_id) WHERE owner_id IS NOT NULL;
CREATE INDEX users_deletion ON users (deletion_at) WHERE deletion_status = 'frozen';
-- Whose purge has begun: it says when once it is over.
CREATE INDEX users_purging ON users (id) WHERE deletion_status = 'purged' AND deletion_at IS NULL;

-- What a person is sent or given to come back with, once: second steps, mailed links.
CREATE TABLE one_time_tokens (
  id bigint PRIMARY KEY,
  user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
  kind text NOT NULL CHECK (kind IN ('two_factor', 'verify_email', 'password_reset', 'restore_email')),
  -- Empty until the mail of a way back is sent.
  token_hash text NOT NULL,
  -- The address that a mailed one was sent to.
  email text,
  -- The second factor of the account at that address, sealed: a way back leads to it, too.
  totp_secret text,
  -- Of a way back: whether somebody had shown that the address is theirs.
  is_confirmed boolean NOT NULL DEFAULT false,
  failures integer NOT NULL DEFAULT 0,
  expires_at bigint NOT NULL
);
CREATE INDEX one_time_tokens_user ON one_time_tokens (user_id);
CREATE INDEX one_time_tokens_expiry ON one_time_tokens (expires_at);
-- Confirmed addresses that their accounts may come back to: nobody else takes one meanwhile.
CREATE INDEX one_time_tokens_ways_back ON one_time_tokens (lower(email)) WHERE kind = 'restore_email' AND is_confirmed;
CREATE INDEX failed_logins_last ON failed_logins (last_at);

-- Mails that were asked for. A request for an address that nobody has is kept just so, without a user, and sent to nobody.
CREATE TABLE mails (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  user_id bigint REFERENCES users ON DELETE CASCADE,
  kind text NOT NULL CHECK (kind IN ('verify_email', 'password_reset', 'restore_email')),
  -- Among the user's mails of the kind: of requests that come at once for one number, one gets it. Null: nobody requested it,
  -- the user's home did.
  number integer,
  asked_at bigint NOT NULL,
  -- When a job last began to send it; null: none is at it.
  tried_at bigint,
  sent_at bigint
);
CREATE INDEX mails_waiting ON mails (tried_at NULLS FIRST, asked_at) WHERE sent_at IS NULL;
CREATE INDEX mails_asked ON mails (asked_at);
CREATE UNIQUE INDEX mails_user ON mails (user_id, kind, number);

-- Accounts elsewhere that sign in here.
CREATE TABLE external_accounts (
  provider text NOT NULL,
  -- Who numbers its people: a provider that is moved elsewhere is another.
  issuer text NOT NULL,
  subject text NOT NULL,
  user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
  linked_at bigint NOT NULL,
  PRIMARY KEY (provider, issuer, subject)
);
CREATE INDEX external_accounts_user ON external_accounts (user_id);

-- Sign-ins that were begun at a provider.
CREATE TABLE oauth_states (
  state_hash text PRIMARY KEY,
  provider text NOT NULL,
  redirect_uri text NOT NULL,
  -- SHA-256 of the verifier that the client holds.
  code_challenge text NOT NULL,
  nonce text,
  address text NOT NULL,
  -- An address has so many at a time as there are places.
  place integer NOT NULL,
  expires_at bigint NOT NULL,
  UNIQUE (address, place)
);
CREATE INDEX oauth_states_expiry ON oauth_states (expires_at);

-- With any of these unrevoked, whoever uses the API presents one.
CREATE TABLE access_tokens (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL,
  token_hash text NOT NULL UNIQUE,
  mode text NOT NULL DEFAULT 'none' CHECK (mode IN ('none', 'monitor', 'enforce')),
  -- Addresses and CIDR ranges.
  scopes text[] NOT NULL DEFAULT '{}',
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint
);

-- What operators ask running servers to do with an account.
-- Whoever takes one does it again if its worker dies: each can be repeated.
CREATE TABLE operator_commands (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- Whose account; of a bot that is to be made, its owner's.
  user_id bigint NOT NULL,
  command text NOT NULL,
  -- JSON.
  input text NOT NULL,
  asked_at bigint NOT NULL DEFAULT extract(epoch FROM now())::bigint,
  taken_by text,
  -- By PostgreSQL's clock: until then nobody else takes it.
  taken_until timestamptz,
  attempts integer NOT NULL DEFAULT 0,
  -- An account was being made: one of that name may be this command's own.
  begun boolean NOT NULL DEFAULT false,
  done_at timestamptz,
  -- JSON; the code of a refusal.
  answer text,
  refusal text
);
CREATE INDEX operator_commands_open ON operator_commands (id) WHERE done_at IS NULL;
CREATE INDEX operator_commands_user ON operator_commands (user_id);

CREATE TABLE messaging_settings (
  user_id bigint PRIMARY KEY REFERENCES users ON DELETE CASCADE,
  read_receipts_enabled boolean NOT NULL,
  typing_indicators_enabled boolean NOT NULL,
  compact_messages_enabled boolean NOT NULL,
  allow_dms_from text NOT NULL CHECK (allow_dms_from IN ('everyone', 'friends', 'none')),
  auto_create_dms boolean NOT NULL
);

CREATE TABLE settings (
  user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
  key text NOT NULL,
  value text NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  PRIMARY KEY (user_id, key)
);
-- What is over after an hour.
CREATE INDEX settings_focus ON settings (updated_at) WHERE key = '_focused_channel';

CREATE TABLE notifications (
  id bigint PRIMARY KEY,
  user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
  type text NOT NULL,
  title text NOT NULL,
  content text NOT NULL,
  content_preview text,
  link text,
  sender_id bigint,
  read boolean NOT NULL DEFAULT false,
  created_at bigint NOT NULL,
  -- What it is about: the mentions in a channel are counted from them, and of one message each is told once.
  channel_id bigint,
  message_id bigint
);
CREATE INDEX notifications_user ON notifications (user_id, id DESC);
CREATE INDEX notifications_unread ON notifications (user_id) WHERE NOT read;

-- What is held about a user is found from him.
CREATE INDEX notifications_sender ON notifications (sender_id) WHERE sender_id IS NOT NULL;
CREATE INDEX bans_user ON bans (user_id);
CREATE INDEX bans_by ON bans (banned_by);
CREATE INDEX channel_overrides_target ON channel_overrides (target_id);
CREATE INDEX invites_inviter ON invites (inviter_id);
CREATE INDEX operator_requests_user ON operator_requests (user_id) WHERE user_id IS NOT NULL;

-- What users asked to be given of all that is held about them.
CREATE TABLE exports (
  id bigint PRIMARY KEY,
  user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
  requested_at bigint NOT NULL,
  -- How often it was begun; parts of earlier attempts count for nothing.
  attempt integer NOT NULL DEFAULT 0,
  -- When a job last did something for it.
  worked_at bigint,
  ready_at bigint,
  expires_at bigint
);
CREATE INDEX exports_user ON exports (user_id, id DESC);
CREATE INDEX exports_waiting ON exports (requested_at) WHERE ready_at IS NULL;
CREATE INDEX exports_expiry ON exports (expires_at);
CREATE TABLE export_parts (
  export_id bigint NOT NULL REFERENCES exports ON DELETE CASCADE,
  attempt integer NOT NULL,
  number integer NOT NULL,
  -- The table that its rows are of.
  name text NOT NULL,
  -- How many, and what they are: a JSON array.
  row_count integer NOT NULL,
  rows text NOT NULL,
  PRIMARY KEY (export_id, attempt, number)
);
CREATE INDEX members_temporary ON members (user_id) WHERE temporary;

-- Time-outs of people who left meanwhile: whoever comes back has his again.
CREATE TABLE left_timeouts (
  server_id bigint NOT NULL REFERENCES servers ON DELETE CASCADE,
  user_id bigint NOT NULL,
  timeout_until bigint NOT NULL,
  timeout_reason text,
  PRIMARY KEY (server_id, user_id)
);
CREATE INDEX left_timeouts_user ON left_timeouts (user_id);

-- The pictures behind icon_url, kept as they were sent.
CREATE TABLE server_icons (
  server_id bigint PRIMARY KEY REFERENCES servers ON DELETE CASCADE,
  file text NOT NULL,
  content_type text NOT NULL,
  -- SHA-256 of the file, in hex.
  hash text NOT NULL,
  size integer NOT NULL
);

-- Who did what in a server. A job deletes what is left of a server that is gone: there may be very much of it.
CREATE TABLE audit_log (
  server_id bigint NOT NULL,
  id bigint NOT NULL,
  user_id bigint NOT NULL,
  action text NOT NULL,
  target_type text NOT NULL,
  target_id text,
  target_name text,
  -- By field: {"old": …, "new": …}.
  changes jsonb NOT NULL,
  reason text NOT NULL,
  created_at bigint NOT NULL,
  PRIMARY KEY (server_id, id)
);
CREATE INDEX audit_log_user ON audit_log (user_id, server_id, id);
CREATE INDEX audit_log_action ON audit_log (server_id, action, id);

CREATE TABLE webhooks (
  id bigint PRIMARY KEY,
  server_id bigint NOT NULL REFERENCES servers ON DELETE CASCADE,
  channel_id bigint NOT NULL,
  creator_id bigint NOT NULL,
  -- Who was given the token last; the webhook sends by their right.
  holder_id bigint NOT NULL,
  -- They were kicked since: as long as they are no member, the webhook sends nothing.
  holder_kicked boolean NOT NULL DEFAULT false,
  name text NOT NULL,
  avatar_url text,
  -- SHA-256 of the token's secret, in hex.
  token_hash text NOT NULL,
  created_at bigint NOT NULL
);
CREATE INDEX webhooks_server ON webhooks (server_id);
CREATE INDEX webhooks_channel ON webhooks (channel_id);
CREATE INDEX webhooks_creator ON webhooks (creator_id);
CREATE INDEX webhooks_holder ON webhooks (holder_id);

-- Keys of files that no row names, or none yet: what stays here is deleted. One that ends in / stands for all below it.
CREATE TABLE unused_files (
  key text PRIMARY KEY,
  -- Unix seconds.
  since bigint NOT NULL
);
CREATE INDEX unused_files_since ON unused_files (since);

CREATE TABLE emojis (
  id bigint PRIMARY KEY,
  server_id bigint NOT NULL REFERENCES servers ON DELETE CASCADE,
  name text NOT NULL,
  animated boolean NOT NULL,
  -- What it is kept under among the files of the server.
  file text NOT NULL,
  content_type text NOT NULL,
  -- SHA-256 of the file, in hex.
  hash text NOT NULL,
  size integer NOT NULL,
  created_by bigint NOT NULL,
  -- Unix milliseconds.
  created_at bigint NOT NULL
);
CREATE INDEX emojis_server ON emojis (server_id);
CREATE INDEX emojis_creator ON emojis (created_by);

CREATE TABLE sticker_packs (
  id bigint PRIMARY KEY,
  server_id bigint NOT NULL REFERENCES servers ON DELETE CASCADE,
  name text NOT NULL,
  description text
);
CREATE INDEX sticker_packs_server ON sticker_packs (server_id);

CREATE TABLE stickers (
  id bigint PRIMARY KEY,
  pack_id bigint NOT NULL REFERENCES sticker_packs ON DELETE CASCADE,
  server_id bigint NOT NULL,
  name text NOT NULL,
  format text NOT NULL,
  tags text[] NOT NULL,
  related_emoji text,
  file text NOT NULL,
  content_type text NOT NULL,
  hash text NOT NULL,
  size integer NOT NULL,
  width integer,
  height integer,
  uses integer NOT NULL DEFAULT 0,
  created_by bigint NOT NULL,
  created_at bigint NOT NULL
);
CREATE INDEX stickers_pack ON stickers (pack_id);
CREATE INDEX stickers_server ON stickers (server_id, uses DESC, id);
CREATE INDEX stickers_creator ON stickers (created_by);

CREATE TABLE automod_rules (
  id bigint PRIMARY KEY,
  server_id bigint NOT NULL REFERENCES servers ON DELETE CASCADE,
  name text NOT NULL,
  rule_type text NOT NULL,
  config jsonb NOT NULL,
  actions jsonb NOT NULL,
  applied_roles bigint[] NOT NULL,
  exempt_roles bigint[] NOT NULL,
  exempt_channels bigint[] NOT NULL,
  priority integer NOT NULL,
  check_all boolean NOT NULL,
  enabled boolean NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  created_by bigint NOT NULL,
  updated_by bigint NOT NULL
);
CREATE INDEX automod_rules_server ON automod_rules (server_id);
CREATE INDEX automod_rules_creator ON automod_rules (created_by);
CREATE INDEX automod_rules_writer ON automod_rules (updated_by);

-- A job deletes what is left of a server that is gone.
CREATE TABLE automod_violations (
  server_id bigint NOT NULL,
  id bigint NOT NULL,
  user_id bigint NOT NULL,
  channel_id bigint NOT NULL,
  rule_id bigint NOT NULL,
  rule_type text NOT NULL,
  matched_content text NOT NULL,
  severity text NOT NULL,
  actions_taken text[] NOT NULL,
  metadata jsonb NOT NULL,
  created_at bigint NOT NULL,
  PRIMARY KEY (server_id, id)
);
CREATE INDEX automod_violations_user ON automod_violations (user_id, server_id, id);
CREATE INDEX automod_violations_created ON automod_violations (created_at);

-- What somebody wants to be told of in a server, or with channel_id in one of its channels; 0: in all that have nothing of their own.
CREATE TABLE notification_settings (
  user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
  server_id bigint NOT NULL,
  channel_id bigint NOT NULL,
  -- Null: as the server has it, and a channel as his server setting has it.
  level text,
  muted boolean NOT NULL,
  -- Unix seconds; null: for ever.
  muted_until bigint,
  PRIMARY KEY (user_id, server_id, channel_id)
);
CREATE INDEX notification_settings_server ON notification_settings (server_id);
CREATE INDEX notification_settings_channel ON notification_settings (channel_id);

-- What is still to be deleted with a ban: messages of a user between two ids.
CREATE TABLE message_deletions (
  server_id bigint NOT NULL,
  user_id bigint NOT NULL,
  after_id bigint NOT NULL,
  before_id bigint NOT NULL,
  PRIMARY KEY (server_id, user_id, before_id)
);
CREATE INDEX message_deletions_user ON message_deletions (user_id);

-- Conversations outside servers, each a home of its own.
CREATE TABLE direct_channels (
  id bigint PRIMARY KEY,
  -- dm or notes
  channel_type text NOT NULL,
  -- Of a DM the lower id; of notes whose they are.
  user_id bigint NOT NULL,
  -- Of a DM the higher id; of notes null.
  other_id bigint,
  created_at bigint NOT NULL,
  CHECK (channel_type = 'dm' AND other_id IS NOT NULL AND user_id < other_id OR channel_type = 'notes' AND other_id IS NULL)
);
-- One per pair and one per person, whoever asks at the same time.
CREATE UNIQUE INDEX direct_channels_pair ON direct_channels (user_id, coalesce(other_id, 0));
CREATE INDEX direct_channels_other ON direct_channels (other_id);

-- Which messages of a channel are pinned, in a table as small as they are few. A message says so, too.
CREATE TABLE pins (
  channel_id bigint NOT NULL,
  message_id bigint NOT NULL,
  -- Unix milliseconds.
  pinned_at bigint NOT NULL,
  PRIMARY KEY (channel_id, message_id)
);

CREATE TABLE reactors (
  channel_id bigint NOT NULL,
  message_id bigint NOT NULL,
  emoji text NOT NULL,
  user_id bigint NOT NULL,
  reacted_at bigint NOT NULL,
  PRIMARY KEY (channel_id, message_id, emoji, user_id)
);
-- In the order in which they are given and taken back.
CREATE INDEX reactors_user ON reactors (user_id, channel_id, message_id, emoji);

-- Files that were sent; messages name them by id or by the path of their url.
CREATE TABLE uploads (
  -- 32 hex digits that nobody chose, and the extension: its id, and its name below /media/attachments.
  file text PRIMARY KEY,
  user_id bigint NOT NULL,
  filename text NOT NULL,
  content_type text NOT NULL,
  size bigint NOT NULL,
  -- SHA-256 of the file, in hex.
  hash text NOT NULL,
  created_at bigint NOT NULL,
  -- Until when it is kept though no message shows it, in Unix seconds; null: one may.
  keep_until bigint
);
CREATE INDEX uploads_user ON uploads (user_id, created_at);
CREATE INDEX uploads_loose ON uploads (keep_until) WHERE keep_until IS NOT NULL;

-- Which messages show a file: whoever may read one of them may read the file.
CREATE TABLE upload_uses (
  file text NOT NULL REFERENCES uploads,
  channel_id bigint NOT NULL,
  message_id bigint NOT NULL,
  PRIMARY KEY (file, channel_id, message_id)
);
CREATE INDEX upload_uses_message ON upload_uses (channel_id, message_id);

-- How many files somebody has sent on a day, counted from 1970 in UTC.
CREATE TABLE upload_counts (
  user_id bigint NOT NULL,
  day integer NOT NULL,
  files integer NOT NULL,
  PRIMARY KEY (user_id, day)
);
CREATE INDEX upload_counts_day ON upload_counts (day);

-- Where a poll is; what it says stands with its message.
CREATE TABLE polls (
  id bigint PRIMARY KEY,
  channel_id bigint NOT NULL,
  message_id bigint NOT NULL,
  -- Unix seconds; null: open until somebody closes it, or over.
  ends_at bigint,
  -- The poll, its message or its channel was deleted: a sweep deletes the votes, then this row.
  gone boolean NOT NULL DEFAULT false
);
CREATE INDEX polls_gone ON polls (id) WHERE gone;
-- A message has one. Who takes it away may give it another before the sweep comes.
CREATE UNIQUE INDEX polls_message ON polls (channel_id, message_id) WHERE NOT gone;
-- Polls whose time is over and that nobody has closed are found among those.
CREATE INDEX polls_due ON polls (ends_at) WHERE ends_at IS NOT NULL;

CREATE TABLE poll_votes (
  poll_id bigint NOT NULL,
  user_id bigint NOT NULL,
  option_ids bigint[] NOT NULL,
  PRIMARY KEY (poll_id, user_id)
);
CREATE INDEX poll_votes_user ON poll_votes (user_id);

-- Whom a message calls, until they are notified: the queue may forget what it was told.
CREATE TABLE message_mentions (
  channel_id bigint NOT NULL,
  message_id bigint NOT NULL,
  -- Null: in a conversation outside servers.
  server_id bigint,
  users bigint[] NOT NULL,
  roles bigint[] NOT NULL,
  everyone boolean NOT NULL,
  here boolean NOT NULL,
  PRIMARY KEY (channel_id, message_id)
);
-- The oldest are looked at first, wherever they are.
CREATE INDEX message_mentions_age ON message_mentions (message_id);

-- How far somebody has read a channel; see docs/read-state.md. There is a row once he has said so.
CREATE TABLE read_states (
  channel_id bigint NOT NULL,
  user_id bigint NOT NULL,
  -- Where his reading began: what he has read is what came after it, up to his position.
  since_id bigint NOT NULL,
  message_id bigint NOT NULL,
  -- How far the others see that he has read.
  visible_id bigint NOT NULL,
  -- What of that they do not see: pairs of which (first, second] is hidden, in order.
  gaps bigint[] NOT NULL DEFAULT '{}',
  PRIMARY KEY (channel_id, user_id)
) WITH (fillfactor = 80);
CREATE INDEX read_states_user ON read_states (user_id);

-- Up to which message of a server, or of a DM, somebody has received everything; see docs/api/deliveries.md.
CREATE TABLE deliveries (
  -- The server, or the DM channel.
  home_id bigint NOT NULL,
  user_id bigint NOT NULL,
  message_id bigint NOT NULL,
  PRIMARY KEY (home_id, user_id)
) WITH (fillfactor = 80);
CREATE INDEX deliveries_user ON deliveries (user_id);

-- How many messages a stretch of a channel holds: those after the row before, up to `upto_id`. By author, and of everybody under author 0.
CREATE TABLE message_tallies (
  channel_id bigint NOT NULL,
  author_id bigint NOT NULL,
  upto_id bigint NOT NULL,
  count integer NOT NULL,
  PRIMARY KEY (channel_id, author_id, upto_id) INCLUDE (count)
) WITH (fillfactor = 90);
-- Whatever statement deletes a message, it is counted and pinned no longer from the same commit on, and its text
-- stands nowhere: neither among what is searched nor in what people were notified of.
CREATE FUNCTION leave_message() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  told integer;
BEGIN
  IF OLD.pinned_at IS NOT NULL THEN
    DELETE FROM pins WHERE channel_id = OLD.channel_id AND message_id = OLD.id;
  END IF;
  UPDATE message_tallies SET count = count - 1
  WHERE channel_id = OLD.channel_id AND author_id IN (0, OLD.author_id) AND upto_id = (
    SELECT upto_id FROM message_tallies WHERE channel_id = OLD.channel_id AND author_id = 0 AND upto_id >= OLD.id ORDER BY upto_id LIMIT 1);
  DELETE FROM message_search WHERE channel_id = OLD.channel_id AND message_id = OLD.id;
  DELETE FROM notifications WHERE id = ANY(ARRAY(
    SELECT id FROM notifications WHERE channel_id = OLD.channel_id AND message_id = OLD.id LIMIT 1000));
  GET DIAGNOSTICS told = ROW_COUNT;
  -- A crowd was told of it: nobody waits for all of that, so the rest goes when its mentions are next looked for.
  IF told = 1000 THEN
    INSERT INTO message_mentions (channel_id, message_id, server_id, users, roles, everyone, here)
    VALUES (OLD.channel_id, OLD.id, OLD.server_id, '{}', '{}', false, false) ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;

-- What searches look into: filled behind the messages from what the outbox publishes, and made anew from them at any time.
-- pg_trgm is a trusted extension: whoever may CREATE in the database may make it.
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE TABLE message_search (
  channel_id bigint NOT NULL,
  message_id bigint NOT NULL,
  -- The server, or the DM or notes channel itself.
  home_id bigint NOT NULL,
  -- Of the text that was read; 0: as it was sent.
  edited_at bigint NOT NULL,
  -- The text without its letters' case, for substrings.
  folded text NOT NULL,
  -- Words with their places, and facts such as the author; see src/domain/messages/search-text.ts.
  words tsvector NOT NULL,
  PRIMARY KEY (channel_id, message_id)
);
CREATE INDEX message_search_home ON message_search (home_id, message_id);
CREATE INDEX message_search_words ON message_search USING gin (words);
-- By channel and text together: what is frequent elsewhere costs nothing in a channel where it is rare.
CREATE INDEX message_search_folded ON message_search USING gin ((ARRAY[channel_id]), folded gin_trgm_ops);
-- Messages that are to be read for it, when there were too many to wait in memory.
CREATE TABLE message_search_backlog (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  channel_id bigint NOT NULL,
  message_id bigint NOT NULL
);
-- How far a rebuild has come; one row while it is under way.
CREATE TABLE message_search_rebuild (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  channel_id bigint NOT NULL DEFAULT 0,
  message_id bigint NOT NULL DEFAULT 0,
  done bigint NOT NULL DEFAULT 0
);
CREATE INDEX servers_public_name ON servers (lower(name) text_pattern_ops) WHERE public;
CREATE INDEX servers_public_text ON servers USING gin (lower(name || ' ' || coalesce(description, '')) gin_trgm_ops) WHERE public;
CREATE UNIQUE INDEX notifications_message ON notifications (user_id, channel_id, message_id) WHERE message_id IS NOT NULL;
-- What is about a message goes with it, or with its channel.
CREATE INDEX notifications_channel ON notifications (channel_id, message_id) WHERE message_id IS NOT NULL;
CREATE TRIGGER messages_deleted AFTER DELETE ON messages FOR EACH ROW WHEN (NOT OLD.deleted) EXECUTE FUNCTION leave_message();
CREATE TRIGGER messages_emptied AFTER UPDATE OF deleted ON messages FOR EACH ROW
  WHEN (NEW.deleted AND NOT OLD.deleted) EXECUTE FUNCTION leave_message();
