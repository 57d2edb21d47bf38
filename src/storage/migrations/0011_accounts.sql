-- Expands: a version that does not know the columns leaves them at their defaults and the tables empty.
ALTER TABLE users
  -- A bot's owner.
  ADD COLUMN owner_id bigint REFERENCES users ON DELETE CASCADE,
  -- Of the whole service; those of servers are roles.
  ADD COLUMN permissions text[] NOT NULL DEFAULT '{}',
  ADD COLUMN tier_expires_at bigint,
  ADD COLUMN tier_notes text,
  -- The address is known to be his: a mail to it was answered, or a provider vouched for it.
  ADD COLUMN email_confirmed boolean NOT NULL DEFAULT false,
  -- By an operator; Unix seconds, 0: not.
  ADD COLUMN locked_until bigint NOT NULL DEFAULT 0,
  ADD COLUMN lock_reason text,
  ADD COLUMN must_rename boolean NOT NULL DEFAULT false,
  ADD COLUMN rename_reason text,
  ADD COLUMN deletion_status text NOT NULL DEFAULT 'active' CHECK (deletion_status IN ('active', 'frozen', 'purged')),
  ADD COLUMN deletion_at bigint,
  -- Sealed with the server's secret key; there without `totp_enabled` while it waits to be confirmed.
  ADD COLUMN totp_secret text,
  -- The latest time step whose code was accepted.
  ADD COLUMN totp_step bigint NOT NULL DEFAULT 0,
  -- Keyed digests.
  ADD COLUMN backup_codes text[] NOT NULL DEFAULT '{}';
CREATE INDEX users_owner ON users (owner_id) WHERE owner_id IS NOT NULL;
CREATE INDEX users_deletion ON users (deletion_at) WHERE deletion_status = 'frozen';
-- Whose purge has begun: it says when once it is over.
CREATE INDEX users_purging ON users (id) WHERE deletion_status = 'purged' AND deletion_at IS NULL;

-- What a person is sent or given to come back with, once: second steps, mailed links.
CREATE TABLE one_time_tokens (
  id bigint PRIMARY KEY,
  user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
  kind text NOT NULL CHECK (kind IN ('two_factor', 'verify_email', 'password_reset')),
  token_hash text NOT NULL,
  -- The address that a mailed one was sent to.
  email text,
  failures integer NOT NULL DEFAULT 0,
  expires_at bigint NOT NULL
);
CREATE INDEX one_time_tokens_user ON one_time_tokens (user_id);
CREATE INDEX one_time_tokens_expiry ON one_time_tokens (expires_at);
CREATE INDEX failed_logins_last ON failed_logins (last_at);

-- Mails that were asked for. A request for an address that nobody has is kept just so, without a user, and sent to nobody.
CREATE TABLE mails (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  user_id bigint REFERENCES users ON DELETE CASCADE,
  kind text NOT NULL CHECK (kind IN ('verify_email', 'password_reset')),
  -- Among the user's mails of the kind: of requests that come at once for one number, one gets it.
  number integer NOT NULL,
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
  -- SHA-256 of the verifier that the client holds; null where the provider knows no PKCE.
  code_challenge text,
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
ALTER TABLE service
  -- How often the access tokens were changed.
  ADD COLUMN access_version bigint NOT NULL DEFAULT 0,
  -- What the secret key of every worker has to answer to.
  ADD COLUMN secret_key_id text;

-- What operators ask running servers to do with an account. A version that does not know the table leaves it to others.
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
  created_at bigint NOT NULL
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
