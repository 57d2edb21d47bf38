-- Expands: a version that does not know the table shows nobody as online.
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
