-- Expands
-- Browsers to which notifications are pushed. They end with the session that made them.
CREATE TABLE push_subscriptions (
  id bigint PRIMARY KEY,
  user_id bigint NOT NULL,
  session_id bigint NOT NULL REFERENCES sessions ON DELETE CASCADE,
  endpoint text NOT NULL UNIQUE,
  p256dh text NOT NULL,
  auth text NOT NULL,
  directs boolean NOT NULL,
  mentions boolean NOT NULL,
  hides_content boolean NOT NULL,
  created_at bigint NOT NULL
);
CREATE INDEX push_subscriptions_user ON push_subscriptions (user_id);
CREATE INDEX push_subscriptions_session ON push_subscriptions (session_id);
-- The VAPID keys of the whole cluster, the private one sealed: subscriptions are made for them.
CREATE TABLE push_keys (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  public_key text NOT NULL,
  private_key text NOT NULL
);
