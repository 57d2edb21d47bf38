-- Expands: a version that does not know what is new here leaves it as it is.

-- Until when somebody may only read, in Unix seconds; and members who go when their last session has ended.
ALTER TABLE members
  ADD COLUMN timeout_until bigint,
  ADD COLUMN timeout_reason text,
  ADD COLUMN temporary boolean NOT NULL DEFAULT false;
CREATE INDEX members_temporary ON members (user_id) WHERE temporary;

-- There may be a hundred thousand of them: a job deletes what is left of a server that is gone, and until then its row is
-- what says that anybody is a member of it. Who is in voice goes with the channels.
ALTER TABLE voice_states DROP CONSTRAINT voice_states_server_id_user_id_fkey;
ALTER TABLE members DROP CONSTRAINT members_server_id_fkey;
ALTER TABLE bans DROP CONSTRAINT bans_server_id_fkey;

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
  name text NOT NULL,
  avatar_url text,
  -- SHA-256 of the token's secret, in hex.
  token_hash text NOT NULL,
  created_at bigint NOT NULL
);
CREATE INDEX webhooks_server ON webhooks (server_id);
CREATE INDEX webhooks_channel ON webhooks (channel_id);
CREATE INDEX webhooks_creator ON webhooks (creator_id);

-- Of messages that a webhook sent: their author is the webhook, with the name and the picture of that moment.
ALTER TABLE messages
  ADD COLUMN webhook_id bigint,
  ADD COLUMN webhook_name text,
  ADD COLUMN webhook_avatar_url text,
  -- As they were sent: jsonb would write numbers out, which can make much of little.
  ADD COLUMN embeds json;

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
