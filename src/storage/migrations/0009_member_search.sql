-- Expands: indexes only.
-- Names by their beginnings, whatever the database's collation.
CREATE INDEX users_name_beginning ON users (lower(username) text_pattern_ops);
CREATE INDEX members_nickname_beginning ON members (server_id, lower(nickname) text_pattern_ops) WHERE nickname IS NOT NULL;
