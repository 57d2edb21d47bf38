-- Expands: a version that does not know what is new here leaves it as it is.

-- Conversations outside servers, each a home of its own.
CREATE TABLE direct_channels (
  id bigint PRIMARY KEY,
  -- dm or notes
  channel_type text NOT NULL,
  -- Of a DM the lower id; of notes whose they are.
  user_id bigint NOT NULL,
  -- Of a DM the higher id; of notes null.
  other_id bigint,
  created_at bigint NOT NULL,
  CHECK (channel_type = 'dm' AND other_id IS NOT NULL AND user_id < other_id OR channel_type = 'notes' AND other_id IS NULL)
);
-- One per pair and one per person, whoever asks at the same time.
CREATE UNIQUE INDEX direct_channels_pair ON direct_channels (user_id, coalesce(other_id, 0));
CREATE INDEX direct_channels_other ON direct_channels (other_id);

-- Which messages of a channel are pinned, in a table as small as they are few. A message says so, too.
CREATE TABLE pins (
  channel_id bigint NOT NULL,
  message_id bigint NOT NULL,
  -- Unix milliseconds.
  pinned_at bigint NOT NULL,
  PRIMARY KEY (channel_id, message_id)
);

CREATE TABLE reactors (
  channel_id bigint NOT NULL,
  message_id bigint NOT NULL,
  emoji text NOT NULL,
  user_id bigint NOT NULL,
  reacted_at bigint NOT NULL,
  PRIMARY KEY (channel_id, message_id, emoji, user_id)
);
-- In the order in which they are given and taken back.
CREATE INDEX reactors_user ON reactors (user_id, channel_id, message_id, emoji);

-- Files that were sent; messages name them by id or by the path of their url.
CREATE TABLE uploads (
  -- 32 hex digits that nobody chose, and the extension: its id, and its name below /media/attachments.
  file text PRIMARY KEY,
  user_id bigint NOT NULL,
  filename text NOT NULL,
  content_type text NOT NULL,
  size bigint NOT NULL,
  -- SHA-256 of the file, in hex.
  hash text NOT NULL,
  created_at bigint NOT NULL,
  -- Until when it is kept though no message shows it, in Unix seconds; null: one may.
  keep_until bigint
);
CREATE INDEX uploads_user ON uploads (user_id, created_at);
CREATE INDEX uploads_loose ON uploads (keep_until) WHERE keep_until IS NOT NULL;

-- Which messages show a file: whoever may read one of them may read the file.
CREATE TABLE upload_uses (
  file text NOT NULL REFERENCES uploads,
  channel_id bigint NOT NULL,
  message_id bigint NOT NULL,
  PRIMARY KEY (file, channel_id, message_id)
);
CREATE INDEX upload_uses_message ON upload_uses (channel_id, message_id);

-- How many files somebody has sent on a day, counted from 1970 in UTC.
CREATE TABLE upload_counts (
  user_id bigint NOT NULL,
  day integer NOT NULL,
  files integer NOT NULL,
  PRIMARY KEY (user_id, day)
);
CREATE INDEX upload_counts_day ON upload_counts (day);

-- Where a poll is; what it says stands with its message.
CREATE TABLE polls (
  id bigint PRIMARY KEY,
  channel_id bigint NOT NULL,
  message_id bigint NOT NULL,
  -- Unix seconds; null: open until somebody closes it, or over.
  ends_at bigint,
  -- The poll, its message or its channel was deleted: a sweep deletes the votes, then this row.
  gone boolean NOT NULL DEFAULT false
);
CREATE INDEX polls_gone ON polls (id) WHERE gone;
-- A message has one. Who takes it away may give it another before the sweep comes.
CREATE UNIQUE INDEX polls_message ON polls (channel_id, message_id) WHERE NOT gone;
-- Polls whose time is over and that nobody has closed are found among those.
CREATE INDEX polls_due ON polls (ends_at) WHERE ends_at IS NOT NULL;

CREATE TABLE poll_votes (
  poll_id bigint NOT NULL,
  user_id bigint NOT NULL,
  option_ids bigint[] NOT NULL,
  PRIMARY KEY (poll_id, user_id)
);
CREATE INDEX poll_votes_user ON poll_votes (user_id);

-- Whom a message calls, until they are notified: the queue may forget what it was told.
CREATE TABLE message_mentions (
  channel_id bigint NOT NULL,
  message_id bigint NOT NULL,
  -- Null: in a conversation outside servers.
  server_id bigint,
  users bigint[] NOT NULL,
  roles bigint[] NOT NULL,
  everyone boolean NOT NULL,
  here boolean NOT NULL,
  PRIMARY KEY (channel_id, message_id)
);
-- The oldest are looked at first, wherever they are.
CREATE INDEX message_mentions_age ON message_mentions (message_id);

-- How far somebody has read a channel; see docs/read-state.md. There is a row once he has said so.
CREATE TABLE read_states (
  channel_id bigint NOT NULL,
  user_id bigint NOT NULL,
  -- Where his reading began: what he has read is what came after it, up to his position.
  since_id bigint NOT NULL,
  message_id bigint NOT NULL,
  -- How far the others see that he has read.
  visible_id bigint NOT NULL,
  -- What of that they do not see: pairs of which (first, second] is hidden, in order.
  gaps bigint[] NOT NULL DEFAULT '{}',
  PRIMARY KEY (channel_id, user_id)
) WITH (fillfactor = 80);
CREATE INDEX read_states_user ON read_states (user_id);

-- Up to when messages of servers and of DMs were delivered to somebody, in Unix milliseconds; see docs/deliveries.md.
CREATE TABLE deliveries (
  user_id bigint PRIMARY KEY,
  guild_ms bigint,
  direct_ms bigint
) WITH (fillfactor = 80);
-- No cursor is later than the latest of these: a worker that starts mints ids after it, whatever its clock says.
CREATE TABLE delivery_bounds (
  -- The incarnation that has written cursors up to then, in Unix milliseconds.
  worker text PRIMARY KEY,
  ms bigint NOT NULL
) WITH (fillfactor = 50);

-- How many messages a stretch of a channel holds: those after the row before, up to `upto_id`. By author, and of everybody under author 0.
CREATE TABLE message_tallies (
  channel_id bigint NOT NULL,
  author_id bigint NOT NULL,
  upto_id bigint NOT NULL,
  count integer NOT NULL,
  PRIMARY KEY (channel_id, author_id, upto_id) INCLUDE (count)
) WITH (fillfactor = 90);
-- Whatever statement of whichever version deletes a message, it is counted and pinned no longer from the same commit on, and its text
-- stands nowhere: neither among what is searched nor in what people were notified of.
CREATE FUNCTION leave_message() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  told integer;
BEGIN
  IF OLD.pinned_at IS NOT NULL THEN
    DELETE FROM pins WHERE channel_id = OLD.channel_id AND message_id = OLD.id;
  END IF;
  UPDATE message_tallies SET count = count - 1
  WHERE channel_id = OLD.channel_id AND author_id IN (0, OLD.author_id) AND upto_id = (
    SELECT upto_id FROM message_tallies WHERE channel_id = OLD.channel_id AND author_id = 0 AND upto_id >= OLD.id ORDER BY upto_id LIMIT 1);
  DELETE FROM message_search WHERE channel_id = OLD.channel_id AND message_id = OLD.id;
  DELETE FROM notifications WHERE id = ANY(ARRAY(
    SELECT id FROM notifications WHERE channel_id = OLD.channel_id AND message_id = OLD.id LIMIT 1000));
  GET DIAGNOSTICS told = ROW_COUNT;
  -- A crowd was told of it: nobody waits for all of that, so the rest goes when its mentions are next looked for.
  IF told = 1000 THEN
    INSERT INTO message_mentions (channel_id, message_id, server_id, users, roles, everyone, here)
    VALUES (OLD.channel_id, OLD.id, OLD.server_id, '{}', '{}', false, false) ON CONFLICT DO NOTHING;
  END IF;
  RETURN NULL;
END $$;

-- What searches look into: filled behind the messages from what the outbox publishes, and made anew from them at any time.
-- pg_trgm is a trusted extension: whoever may CREATE in the database may make it.
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE TABLE message_search (
  channel_id bigint NOT NULL,
  message_id bigint NOT NULL,
  -- The server, or the DM or notes channel itself.
  home_id bigint NOT NULL,
  -- Of the text that was read; 0: as it was sent.
  edited_at bigint NOT NULL,
  -- The text without its letters' case, for substrings.
  folded text NOT NULL,
  -- Words with their places, and facts such as the author; see src/domain/search-text.ts.
  words tsvector NOT NULL,
  PRIMARY KEY (channel_id, message_id)
);
CREATE INDEX message_search_home ON message_search (home_id, message_id);
CREATE INDEX message_search_words ON message_search USING gin (words);
-- By channel and text together: what is frequent elsewhere costs nothing in a channel where it is rare.
CREATE INDEX message_search_folded ON message_search USING gin ((ARRAY[channel_id]), folded gin_trgm_ops);
-- Messages that are to be read for it, when there were too many to wait in memory.
CREATE TABLE message_search_backlog (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  channel_id bigint NOT NULL,
  message_id bigint NOT NULL
);
-- How far a rebuild has come; one row while it is under way.
CREATE TABLE message_search_rebuild (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  channel_id bigint NOT NULL DEFAULT 0,
  message_id bigint NOT NULL DEFAULT 0,
  done bigint NOT NULL DEFAULT 0
);
-- Servers are not changed while these two are built; they are read.
CREATE INDEX servers_public_name ON servers (lower(name) text_pattern_ops) WHERE public;
CREATE INDEX servers_public_text ON servers USING gin (lower(name || ' ' || coalesce(description, '')) gin_trgm_ops) WHERE public;

-- Tables that everybody reads and writes come last. From here to the end nobody else reads or writes notifications: for as long as it takes to
-- read them through twice, since the new indexes hold none of those that there are. Members and messages are locked for a moment only.
-- What a notification is about: the mentions in a channel are counted from them, and of one message each is told once.
ALTER TABLE notifications
  ADD COLUMN channel_id bigint,
  ADD COLUMN message_id bigint;
CREATE UNIQUE INDEX notifications_message ON notifications (user_id, channel_id, message_id) WHERE message_id IS NOT NULL;
-- What is about a message goes with it, or with its channel.
CREATE INDEX notifications_channel ON notifications (channel_id, message_id) WHERE message_id IS NOT NULL;

-- The id that was minted as somebody joined: what is below it was there before him.
ALTER TABLE members ADD COLUMN since_id bigint;

-- What a message has beside its text stands with it, so that a page of history is one index range.
ALTER TABLE messages
  ADD COLUMN attachments json,
  -- How often each emoji was used, in the order of first use.
  ADD COLUMN reactions json,
  ADD COLUMN poll json,
  -- Unix milliseconds.
  ADD COLUMN pinned_at bigint;
CREATE TRIGGER messages_deleted AFTER DELETE ON messages FOR EACH ROW WHEN (NOT OLD.deleted) EXECUTE FUNCTION leave_message();
CREATE TRIGGER messages_emptied AFTER UPDATE OF deleted ON messages FOR EACH ROW
  WHEN (NEW.deleted AND NOT OLD.deleted) EXECUTE FUNCTION leave_message();
