-- Expands
-- The picture of a user, below the files of their own.
CREATE TABLE user_avatars (
  user_id bigint PRIMARY KEY REFERENCES users,
  file text NOT NULL,
  content_type text NOT NULL,
  -- SHA-256 of the file, in hex.
  hash text NOT NULL,
  size integer NOT NULL
);
-- False: the file is what somebody uploaded, and a job is to encode it again. Null: it cannot be decoded, and stays as it is.
ALTER TABLE server_icons ADD COLUMN is_encoded boolean DEFAULT false;
ALTER TABLE emojis ADD COLUMN is_encoded boolean DEFAULT false;
ALTER TABLE stickers ADD COLUMN is_encoded boolean DEFAULT false;
UPDATE stickers SET is_encoded = true WHERE format = 'json';
CREATE INDEX server_icons_as_uploaded ON server_icons (server_id) WHERE NOT is_encoded;
CREATE INDEX emojis_as_uploaded ON emojis (id) WHERE NOT is_encoded;
CREATE INDEX stickers_as_uploaded ON stickers (id) WHERE NOT is_encoded AND format <> 'json';
-- What is known of pictures among the uploads. Without a base: no picture that thumbnails can be made of.
CREATE TABLE upload_thumbnails (
  file text PRIMARY KEY,
  -- What the thumbnails are kept under.
  base text,
  width integer,
  height integer,
  -- In base64.
  thumbhash text
);
-- Messages whose pictures wait for thumbnails, since then, in Unix seconds.
CREATE TABLE thumbnail_requests (
  channel_id bigint NOT NULL,
  message_id bigint NOT NULL,
  since bigint NOT NULL,
  PRIMARY KEY (channel_id, message_id)
);
CREATE INDEX thumbnail_requests_since ON thumbnail_requests (since);
-- The thumbnails of an upload go with it, whatever deletes it.
CREATE FUNCTION leave_thumbnails() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  WITH ended AS (DELETE FROM upload_thumbnails USING gone WHERE upload_thumbnails.file = gone.file RETURNING base)
  INSERT INTO unused_files (key, since)
  SELECT 'thumbnails/' || base || '-' || side, 0 FROM ended, unnest(ARRAY[64, 128, 256, 512]) AS side WHERE base IS NOT NULL
  ON CONFLICT (key) DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER uploads_deleted AFTER DELETE ON uploads REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION leave_thumbnails();
