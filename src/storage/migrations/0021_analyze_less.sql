-- Expands
-- Statistics are made anew when a table has grown by a tenth, and of a small part of `messages` that reads all of it. Nothing is
-- planned by what is in it: its rows are found by their keys.
DO $$
BEGIN
  FOR part IN 0..15 LOOP
    EXECUTE format('ALTER TABLE messages_%s SET (autovacuum_analyze_scale_factor = 0.5)', part);
  END LOOP;
END $$;
-- What searches are planned by, the share of messages that has a word, is a sample's.
ALTER TABLE message_search SET (autovacuum_analyze_scale_factor = 0.2);
