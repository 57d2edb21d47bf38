-- Expands
-- What users report of messages, and what became of it.
CREATE TABLE message_reports (
  id bigint PRIMARY KEY,
  message_id bigint NOT NULL,
  channel_id bigint NOT NULL,
  server_id bigint,
  reporter_id bigint NOT NULL,
  -- The author.
  reported_user_id bigint NOT NULL,
  reason text NOT NULL,
  category text NOT NULL,
  details text,
  -- The beginning of the message's text as it was when it was first reported.
  message_content text,
  -- pending, reviewed, actioned or dismissed.
  status text NOT NULL DEFAULT 'pending',
  reported_at bigint NOT NULL,
  reviewed_at bigint,
  -- An operator.
  reviewed_by bigint,
  admin_notes text,
  action_taken text
);
CREATE UNIQUE INDEX message_reports_pending ON message_reports (reporter_id, channel_id, message_id) WHERE status = 'pending';
CREATE INDEX message_reports_reporter ON message_reports (reporter_id, channel_id, message_id, id);
CREATE INDEX message_reports_reported ON message_reports (reported_user_id);
CREATE INDEX message_reports_status ON message_reports (status, id);

CREATE TABLE user_reports (
  id bigint PRIMARY KEY,
  reported_user_id bigint NOT NULL,
  reporter_id bigint NOT NULL,
  reason text NOT NULL,
  category text NOT NULL,
  details text,
  -- As the reporter gave them.
  evidence_message_ids bigint[] NOT NULL,
  -- As those of messages.
  status text NOT NULL DEFAULT 'pending',
  reported_at bigint NOT NULL,
  reviewed_at bigint,
  reviewed_by bigint,
  admin_notes text,
  action_taken text
);
CREATE UNIQUE INDEX user_reports_pending ON user_reports (reporter_id, reported_user_id) WHERE status = 'pending';
CREATE INDEX user_reports_reporter ON user_reports (reporter_id, reported_user_id, id);
CREATE INDEX user_reports_reported ON user_reports (reported_user_id);
CREATE INDEX user_reports_status ON user_reports (status, id);

-- pending, blocked, cleared or reviewed.
CREATE INDEX hash_reports_status ON hash_reports (status, id);
CREATE INDEX hash_reports_target ON hash_reports (hash_value, reporter_id, id);
-- Lists of what is blocked, the latest first.
CREATE INDEX blocked_hashes_latest ON blocked_hashes (blocked_at DESC, hash_value) WHERE alike IS NULL;
CREATE INDEX blocked_uploaders_latest ON blocked_uploaders (blocked_at DESC, user_id);

-- What users tell the operators: their tickets.
CREATE TABLE feedback (
  id bigint PRIMARY KEY,
  user_id bigint NOT NULL,
  content text NOT NULL,
  category text,
  rating integer,
  -- open, in_progress, resolved or closed.
  status text NOT NULL DEFAULT 'open',
  created_at bigint NOT NULL,
  resolved_at bigint,
  -- An operator.
  resolved_by bigint
);
CREATE INDEX feedback_user ON feedback (user_id, created_at);
CREATE INDEX feedback_status ON feedback (status, id);

CREATE TABLE feedback_notes (
  id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  ticket_id bigint NOT NULL REFERENCES feedback,
  -- An operator.
  admin_id bigint NOT NULL,
  content text NOT NULL,
  created_at bigint NOT NULL
);
CREATE INDEX feedback_notes_ticket ON feedback_notes (ticket_id, id);
