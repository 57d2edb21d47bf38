-- Expands
-- Accounts whose purge has ended, by when: a job looks whether a worker of an older version has left rows that it did not know.
CREATE INDEX users_purged ON users (deletion_at, id) WHERE deletion_status = 'purged' AND deletion_at IS NOT NULL;
