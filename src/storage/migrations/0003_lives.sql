-- Expands: a version that does not know these columns declares dead whatever they say, and makes no log anew.
-- A worker that was silent for too long counts its lives up before it serves again, so that whoever was about to declare it
-- dead for that silence finds that it is out of date. One that made its log anew in another Redis says so in `log_at`: what a
-- worker makes after it was declared dead is nobody's log.
ALTER TABLE incarnations ADD COLUMN lives int NOT NULL DEFAULT 0, ADD COLUMN log_at text;
