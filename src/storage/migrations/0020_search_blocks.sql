-- Expands
-- Texts of a channel by blocks: one covers the messages after the block before it, up to `upto_id`; the newest are in none yet.
-- In place of an index of three characters each, which took as long to keep as all else that searches look into.
CREATE TABLE message_search_blocks (
  channel_id bigint NOT NULL,
  upto_id bigint NOT NULL,
  -- How much there is to look through: its messages, those with long texts more than once.
  looks integer NOT NULL,
  -- A bit for each group of three and of four characters in its texts, see src/domain/messages/text-signature.ts. NULL: something was
  -- edited, deleted or added since, so all of its texts are looked through until it is made anew.
  signature bytea,
  PRIMARY KEY (channel_id, upto_id)
);
-- It stands in the row: many are read one after the other.
ALTER TABLE message_search_blocks ALTER COLUMN signature SET STORAGE PLAIN;
CREATE INDEX message_search_blocks_doubtful ON message_search_blocks (channel_id, upto_id) WHERE signature IS NULL;
-- How far the messages of before are in blocks; a row while they are not, and while programs may run that read the index of three
-- characters each.
CREATE TABLE message_search_blocks_begun (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  channel_id bigint NOT NULL DEFAULT 0,
  since timestamptz NOT NULL DEFAULT now()
);
DO $$
BEGIN
  IF EXISTS (SELECT FROM message_search) THEN
    INSERT INTO message_search_blocks_begun DEFAULT VALUES;
  ELSE
    DROP INDEX message_search_folded;
  END IF;
END $$;
-- Whoever writes rows and knows nothing of blocks, as the version before, has them looked through.
CREATE FUNCTION doubt_block() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE message_search_blocks SET signature = NULL, looks = looks + 1
  WHERE channel_id = NEW.channel_id AND upto_id = (
    SELECT upto_id FROM message_search_blocks WHERE channel_id = NEW.channel_id AND upto_id >= NEW.message_id ORDER BY upto_id LIMIT 1);
  RETURN NULL;
END $$;
CREATE TRIGGER message_search_written AFTER INSERT OR UPDATE OF folded ON message_search FOR EACH ROW
  WHEN (current_setting('starling.search_blocks', true) IS DISTINCT FROM 'kept') EXECUTE FUNCTION doubt_block();
