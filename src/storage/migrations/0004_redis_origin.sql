-- Expands: a version that does not know the table puts no mark into keys.
-- The replication id of the Redis in which the cluster's first worker started: under it keys bear no mark. Redis itself cannot
-- be asked: one that comes back empty would name another, and workers of before and after would not find one another.
CREATE TABLE redis_origin (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  id text NOT NULL
);
