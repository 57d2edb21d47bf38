-- Expands: a version that does not know voice shows channels without these columns and lets nobody in; who leaves a server there leaves its call by the foreign key.
ALTER TABLE channels
  ADD COLUMN user_limit int NOT NULL DEFAULT 0,
  ADD COLUMN bitrate int NOT NULL DEFAULT 64000;

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
  PRIMARY KEY (server_id, user_id),
  FOREIGN KEY (server_id, user_id) REFERENCES members ON DELETE CASCADE
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
