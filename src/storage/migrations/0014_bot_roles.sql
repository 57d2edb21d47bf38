-- Expands
-- The bot that a role was made for as it was added to the server: the role goes when the bot goes.
ALTER TABLE roles ADD COLUMN bot_id bigint;
CREATE INDEX roles_bot ON roles (bot_id) WHERE bot_id IS NOT NULL;
