-- Expands: a version that does not know the column leaves it empty.
-- Users whose sessions a finished logout of everybody could not take away. `ended` counts while it is under way, too.
ALTER TABLE operator_requests ADD COLUMN failed bigint;
