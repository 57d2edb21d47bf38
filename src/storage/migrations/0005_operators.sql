-- Expands
-- Accounts of the operator area. They are no users.
CREATE TABLE operators (
  -- Small: no id of a user is one of these.
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL,
  password_hash text NOT NULL,
  created_at bigint NOT NULL DEFAULT extract(epoch FROM now())::bigint,
  last_login bigint,
  must_setup_otp boolean NOT NULL DEFAULT true,
  -- Sealed. The one in use, and the one that is being set up: it replaces the first once a code of it was right.
  totp_secret text,
  totp_pending text,
  -- The newest step whose code was taken.
  totp_step bigint NOT NULL DEFAULT 0,
  -- Digests of the backup codes that are left.
  backup_codes text[] NOT NULL DEFAULT '{}'
);
CREATE UNIQUE INDEX operators_name ON operators (lower(name));

CREATE TABLE operator_sessions (
  -- SHA-256 of the token, in hex.
  token_hash text PRIMARY KEY,
  operator_id bigint NOT NULL REFERENCES operators ON DELETE CASCADE,
  created_at bigint NOT NULL DEFAULT extract(epoch FROM now())::bigint,
  expires_at bigint NOT NULL,
  address text NOT NULL
);
CREATE INDEX operator_sessions_operator ON operator_sessions (operator_id);
CREATE INDEX operator_sessions_expires ON operator_sessions (expires_at);

-- Between a right password and a right code.
CREATE TABLE operator_challenges (
  token_hash text PRIMARY KEY,
  -- Who is removed meanwhile is told so.
  operator_id bigint NOT NULL,
  -- It ends with the secret that was drawn for it, which becomes the one in use.
  is_setup boolean NOT NULL,
  -- Codes that came with it.
  failures integer NOT NULL DEFAULT 0,
  expires_at bigint NOT NULL
);
CREATE INDEX operator_challenges_operator ON operator_challenges (operator_id);
CREATE INDEX operator_challenges_expires ON operator_challenges (expires_at);

-- Failed sign-ins by address (`a ...`) and by name (`n ...`), and wrong passwords and codes in a session (`p ...`).
CREATE TABLE operator_failures (
  key text PRIMARY KEY,
  failures integer NOT NULL,
  -- The first of those that count.
  since bigint NOT NULL,
  locked_until bigint NOT NULL DEFAULT 0
);
CREATE INDEX operator_failures_since ON operator_failures (since);

-- What operators did. Nothing of it is changed later but how a call ended, once; nothing is deleted before its year is over.
CREATE TABLE operator_trail (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at bigint NOT NULL DEFAULT extract(epoch FROM clock_timestamp())::bigint,
  -- Null: nobody who is known.
  operator_id bigint,
  operator text,
  action text NOT NULL,
  target text,
  -- JSON, bounded, without secrets.
  input text NOT NULL,
  address text NOT NULL,
  -- HTTP status and the name of the refusal; null: the call has not ended, or nobody knows how.
  outcome integer,
  error text,
  result text NOT NULL DEFAULT '{}'
);
CREATE INDEX operator_trail_operator ON operator_trail (lower(operator), id);
CREATE INDEX operator_trail_action ON operator_trail (action, id);
CREATE INDEX operator_trail_target ON operator_trail (target, id) WHERE target IS NOT NULL;
CREATE INDEX operator_trail_at ON operator_trail (at);

CREATE FUNCTION keep_operator_trail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.outcome IS NULL
     AND (NEW.id, NEW.at, NEW.operator_id, NEW.operator, NEW.action, NEW.target, NEW.input, NEW.address)
         IS NOT DISTINCT FROM (OLD.id, OLD.at, OLD.operator_id, OLD.operator, OLD.action, OLD.target, OLD.input, OLD.address) THEN
    RETURN NEW;
  END IF;
  IF TG_OP = 'DELETE' AND OLD.at < extract(epoch FROM now() - interval '1 year') THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'the trail of operators is append-only';
END $$;
CREATE TRIGGER operator_trail_kept BEFORE UPDATE OR DELETE ON operator_trail FOR EACH ROW EXECUTE FUNCTION keep_operator_trail();
CREATE FUNCTION refuse_truncating_operator_trail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the trail of operators is append-only';
END $$;
CREATE TRIGGER operator_trail_whole BEFORE TRUNCATE ON operator_trail EXECUTE FUNCTION refuse_truncating_operator_trail();
