-- Expands
-- What a file holds, kept once however often it was sent. Uploads with is_shared name it by its hash; the others, of versions
-- before, have a file of their own under their own name.
CREATE TABLE upload_contents (
  -- SHA-256, in hex.
  hash text PRIMARY KEY,
  -- 32 hex digits that nobody chose: what it is kept under. No upload has the same name, so that a version before, which
  -- deletes files by the names of uploads, deletes none of these.
  blob text NOT NULL UNIQUE,
  size bigint NOT NULL,
  -- Uploads that name it.
  uses integer NOT NULL,
  -- Perceptual hash: 16 hex digits; empty: it has none; null: not looked at yet.
  phash text,
  -- When a sweep found no file of it, in Unix seconds.
  missing_since bigint
);
CREATE INDEX upload_contents_unused ON upload_contents (hash) WHERE uses = 0;
CREATE INDEX upload_contents_unhashed ON upload_contents (hash) WHERE phash IS NULL;
CREATE INDEX upload_contents_missing ON upload_contents (hash) WHERE missing_since IS NOT NULL;
ALTER TABLE uploads ADD COLUMN is_shared boolean NOT NULL DEFAULT false;
CREATE INDEX uploads_hash ON uploads (hash);

-- Files that come in chunks.
CREATE TABLE upload_sessions (
  id text PRIMARY KEY,
  user_id bigint NOT NULL,
  filename text NOT NULL,
  content_type text NOT NULL,
  total_size bigint NOT NULL,
  total_chunks integer NOT NULL,
  -- open: takes chunks; completing: a job puts them together; completed and failed: its answer is known; cancelled: about to go.
  state text NOT NULL DEFAULT 'open',
  -- The day of upload_counts in which it has a place.
  day integer NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  -- When its chunks were to be put together.
  completed_at bigint,
  -- Of a completed one: its upload, and that file's hash.
  file text,
  hash text,
  -- Of a failed one: the error's code.
  refusal text
);
CREATE INDEX upload_sessions_user ON upload_sessions (user_id);
CREATE INDEX upload_sessions_expires ON upload_sessions (expires_at);
CREATE INDEX upload_sessions_completing ON upload_sessions (completed_at) WHERE state = 'completing';

CREATE TABLE upload_chunks (
  session_id text NOT NULL REFERENCES upload_sessions,
  number integer NOT NULL,
  -- What it is kept under: 32 hex digits that nobody chose.
  blob text NOT NULL,
  PRIMARY KEY (session_id, number)
);

-- Files that nobody may send. An operator's block also ends that they are served.
CREATE TABLE blocked_hashes (
  hash_value text PRIMARY KEY,
  -- sha256, or phash: what looks alike, up to so many bits that differ.
  hash_type text NOT NULL,
  phash_threshold integer NOT NULL,
  reason text NOT NULL,
  blocked_at bigint NOT NULL,
  blocked_by bigint,
  -- Reports have done it.
  auto_blocked boolean NOT NULL,
  -- The blocked phash that it looks like; unblocked with that.
  alike text
);
CREATE INDEX blocked_hashes_phash ON blocked_hashes (hash_value) WHERE hash_type = 'phash';
CREATE INDEX blocked_hashes_alike ON blocked_hashes (alike) WHERE alike IS NOT NULL;

-- Users who may not send files.
CREATE TABLE blocked_uploaders (
  user_id bigint PRIMARY KEY,
  reason text NOT NULL,
  blocked_at bigint NOT NULL,
  blocked_by bigint,
  -- Null: permanently.
  expires_at bigint
);

CREATE TABLE hash_reports (
  id bigint PRIMARY KEY,
  hash_value text NOT NULL,
  phash_value text,
  reporter_id bigint NOT NULL,
  reason text NOT NULL,
  details text,
  status text NOT NULL DEFAULT 'pending',
  reported_at bigint NOT NULL,
  reviewed_at bigint,
  reviewed_by bigint,
  admin_notes text,
  uploader_id bigint,
  message_id bigint,
  attachment_url text,
  block_uploader boolean NOT NULL,
  -- The reporter could read a message with such a file: it counts towards a block.
  counts boolean NOT NULL
);
CREATE UNIQUE INDEX hash_reports_pending ON hash_reports (hash_value, reporter_id) WHERE status = 'pending';
CREATE INDEX hash_reports_reporter ON hash_reports (reporter_id);
CREATE INDEX hash_reports_uploader ON hash_reports (uploader_id) WHERE uploader_id IS NOT NULL;
