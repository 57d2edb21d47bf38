-- Expands: a version that does not know overrides goes by roles alone.
-- What a channel allows or denies a role or a member beside what they have in the server.
CREATE TABLE channel_overrides (
  channel_id bigint NOT NULL REFERENCES channels ON DELETE CASCADE,
  target_id bigint NOT NULL,
  server_id bigint NOT NULL REFERENCES servers ON DELETE CASCADE,
  type text NOT NULL,
  allow text[] NOT NULL,
  deny text[] NOT NULL,
  PRIMARY KEY (channel_id, target_id)
);
CREATE INDEX channel_overrides_server ON channel_overrides (server_id);
