-- Expands: a version that does not know the column declares dead whatever it says.
-- A worker that was silent for too long counts up before it serves again, so that whoever was about to declare it dead for
-- that silence finds that it is out of date.
ALTER TABLE incarnations ADD COLUMN lives int NOT NULL DEFAULT 0;
