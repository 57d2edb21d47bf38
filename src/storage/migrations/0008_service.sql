-- Expands: a version that does not know the tables announces nothing, blocks nobody and leaves requests to others.
-- What is so for the service as a whole; every web worker looks at this one row once a second.
CREATE TABLE service (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  state text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'maintenance', 'shutting_down', 'restarting')),
  message text,
  estimated_downtime_seconds bigint,
  restart_at bigint,
  changed_at bigint NOT NULL DEFAULT extract(epoch FROM now())::bigint,
  -- How often the state was set, everybody was logged out, the blocked addresses were changed.
  changes bigint NOT NULL DEFAULT 0,
  resets bigint NOT NULL DEFAULT 0,
  blocks_version bigint NOT NULL DEFAULT 0,
  -- Sessions up to this id ended with the latest reset.
  reset_until bigint NOT NULL DEFAULT 0
);
INSERT INTO service DEFAULT VALUES;

CREATE TABLE address_blocks (
  address inet PRIMARY KEY,
  reason text,
  blocked_at bigint NOT NULL,
  -- The operator's account; null: at the machine itself.
  blocked_by bigint,
  expires_at bigint
);

-- What an operator has asked running servers to do. Whoever takes a request does it again if its worker dies: each can be repeated.
CREATE TABLE operator_requests (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind text NOT NULL,
  user_id bigint,
  message text,
  -- Of sessions: up to this id.
  until_id bigint,
  asked_at bigint NOT NULL DEFAULT extract(epoch FROM now())::bigint,
  taken_by text,
  -- By PostgreSQL's clock: until then nobody else takes it.
  taken_until timestamptz,
  attempts integer NOT NULL DEFAULT 0,
  done_at timestamptz,
  -- Sessions that were ended; the code of a refusal.
  ended bigint,
  refusal text
);
CREATE INDEX operator_requests_open ON operator_requests (id) WHERE done_at IS NULL;
