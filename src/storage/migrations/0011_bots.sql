-- Expands
-- What a bot asks for in the servers that it is added to, and whether others than its owner may add it. Of no meaning for people.
ALTER TABLE users
  ADD COLUMN bot_permissions text[] NOT NULL DEFAULT '{}',
  ADD COLUMN bot_public boolean NOT NULL DEFAULT false;
