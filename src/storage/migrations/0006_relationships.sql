-- Expands: a version that does not know the table has neither friends nor blocks.
-- What one user is to another, one row per side. Both rows of a pair are written by one home: see src/domain/relationships.ts.
CREATE TABLE relationships (
  user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
  other_id bigint NOT NULL REFERENCES users ON DELETE CASCADE CHECK (other_id <> user_id),
  status text NOT NULL CHECK (status IN ('friend', 'pending_incoming', 'pending_outgoing', 'blocked')),
  -- Of an incoming request.
  message text,
  created_at bigint NOT NULL,
  PRIMARY KEY (user_id, other_id)
);
CREATE INDEX relationships_other ON relationships (other_id, user_id);
