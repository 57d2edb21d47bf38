-- Expands
-- When a person signed in last, in Unix seconds.
ALTER TABLE users ADD COLUMN last_login bigint;
UPDATE users SET last_login = latest.at
FROM (SELECT user_id, max(created_at) AS at FROM sessions WHERE id <> user_id GROUP BY user_id) AS latest WHERE latest.user_id = users.id;
-- For operators, who look for a part of a name.
CREATE INDEX users_username_text ON users USING gin (lower(username) gin_trgm_ops);

-- What operators note about a user.
CREATE TABLE user_notes (
  user_id bigint PRIMARY KEY,
  notes text NOT NULL,
  updated_at bigint NOT NULL,
  -- An operator; null: somebody at the machine.
  updated_by bigint
);

-- What nobody may be called from now on.
CREATE TABLE banned_usernames (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  pattern text NOT NULL,
  -- RE2, found anywhere in a name; else a whole name.
  is_regex boolean NOT NULL,
  -- Instructions of a compiled expression: what it costs to look for it.
  size integer NOT NULL DEFAULT 0,
  reason text,
  created_at bigint NOT NULL,
  created_by bigint
);
CREATE UNIQUE INDEX banned_usernames_pattern ON banned_usernames (is_regex, (CASE WHEN is_regex THEN pattern ELSE lower(pattern) END));
-- How often they were changed.
ALTER TABLE service ADD COLUMN names_version bigint NOT NULL DEFAULT 0;

ALTER TABLE access_tokens
  ALTER COLUMN name DROP NOT NULL,
  ADD COLUMN description text,
  ADD COLUMN created_by bigint,
  ADD COLUMN revoked_by bigint,
  ADD COLUMN first_used_at bigint,
  ADD COLUMN last_used_at bigint,
  ADD COLUMN last_used_ip_address text,
  ADD COLUMN last_used_user_agent text,
  ADD COLUMN last_used_path text,
  ADD COLUMN use_count_total bigint NOT NULL DEFAULT 0,
  ADD COLUMN denied_count_total bigint NOT NULL DEFAULT 0;

-- The scopes of a token one by one. What is enforced is access_tokens.scopes, which holds the same values.
CREATE TABLE access_token_scopes (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  token_id bigint NOT NULL REFERENCES access_tokens,
  scope_type text NOT NULL,
  value text NOT NULL,
  created_by bigint,
  created_at bigint NOT NULL,
  UNIQUE (token_id, value)
);
CREATE FUNCTION list_scopes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO access_token_scopes (token_id, scope_type, value, created_by, created_at)
  SELECT NEW.id, CASE WHEN value LIKE '%/%' THEN 'cidr' ELSE 'ip' END, value, NEW.created_by, NEW.created_at
  FROM unnest(NEW.scopes) WITH ORDINALITY AS given (value, n) ORDER BY n
  ON CONFLICT (token_id, value) DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER access_tokens_made AFTER INSERT ON access_tokens FOR EACH ROW WHEN (cardinality(NEW.scopes) > 0) EXECUTE FUNCTION list_scopes();
INSERT INTO access_token_scopes (token_id, scope_type, value, created_at)
SELECT id, CASE WHEN value LIKE '%/%' THEN 'cidr' ELSE 'ip' END, value, created_at FROM access_tokens, unnest(scopes) AS value
ON CONFLICT (token_id, value) DO NOTHING;

-- The latest uses of each token.
CREATE TABLE access_token_events (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  token_id bigint NOT NULL,
  used_at bigint NOT NULL,
  ip_address text NOT NULL,
  method text,
  -- The route's: its parameters are names in braces.
  path text,
  user_agent text NOT NULL,
  allowed boolean NOT NULL,
  scope_match boolean,
  reject_reason text
);
CREATE INDEX access_token_events_token ON access_token_events (token_id, id);
CREATE INDEX access_token_events_used ON access_token_events (used_at);
-- How often a token came from each address, and for which routes.
CREATE TABLE access_token_addresses (
  token_id bigint NOT NULL,
  ip_address text NOT NULL,
  requests bigint NOT NULL,
  denied bigint NOT NULL,
  last_seen_at bigint NOT NULL,
  PRIMARY KEY (token_id, ip_address)
);
CREATE INDEX access_token_addresses_seen ON access_token_addresses (last_seen_at);
CREATE TABLE access_token_paths (
  token_id bigint NOT NULL,
  -- Empty: of no route.
  method text NOT NULL,
  path text NOT NULL,
  requests bigint NOT NULL,
  last_seen_at bigint NOT NULL,
  PRIMARY KEY (token_id, method, path)
);
