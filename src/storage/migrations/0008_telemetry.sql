-- Expands
-- How long requests took, summed up for spans of 5 minutes, an hour and a day. A partition is a day of UTC; what writes makes those that
-- are missing, and a sweep drops them whole.
CREATE TABLE telemetry_timings (
  -- Seconds, and when it begins in Unix seconds.
  span integer NOT NULL,
  at bigint NOT NULL,
  endpoint text NOT NULL,
  method text NOT NULL,
  -- Who measured: server or client.
  source text NOT NULL,
  count bigint NOT NULL,
  errors bigint NOT NULL,
  -- Microseconds.
  sum_us bigint NOT NULL,
  min_us bigint NOT NULL,
  max_us bigint NOT NULL,
  -- Of a database, as clients say.
  queries bigint NOT NULL,
  query_us bigint NOT NULL,
  -- How many lie in which bucket of the histogram, the same number of each.
  buckets smallint[] NOT NULL,
  counts integer[] NOT NULL,
  PRIMARY KEY (span, endpoint, method, source, at)
) PARTITION BY RANGE (at);
-- The last batch of each process, so that one that is written again counts once.
CREATE TABLE telemetry_writers (
  writer text PRIMARY KEY,
  batch bigint NOT NULL,
  written_at bigint NOT NULL
);
