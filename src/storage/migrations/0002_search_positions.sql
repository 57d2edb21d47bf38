-- Expands
-- How far message_search follows the outbox of each shard: job workers read what comes after. Whoever holds a row alone reads and
-- writes messages of that shard for it.
CREATE TABLE message_search_positions (
  shard smallint PRIMARY KEY,
  number bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
INSERT INTO message_search_positions (shard) SELECT generate_series(0, 1023);
-- Since when a message waits.
ALTER TABLE message_search_backlog ADD COLUMN listed_at timestamptz NOT NULL DEFAULT now();
