-- Expands
-- The order in which invites were made: their times are whole seconds.
ALTER TABLE invites ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY;
