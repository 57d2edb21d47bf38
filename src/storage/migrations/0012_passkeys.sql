-- Expands
-- Keys of authenticators with which users sign in.
CREATE TABLE passkeys (
  id bigint PRIMARY KEY,
  user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
  -- In base64url, as the key itself (COSE): it is public.
  credential_id text NOT NULL,
  public_key text NOT NULL,
  -- The last that the authenticator said; 0: it does not count.
  counter bigint NOT NULL,
  transports text[] NOT NULL,
  name text NOT NULL,
  synced boolean NOT NULL,
  created_at bigint NOT NULL,
  last_used_at bigint,
  CONSTRAINT passkeys_credential UNIQUE (credential_id)
);
CREATE INDEX passkeys_user ON passkeys (user_id);
