-- Expands
-- Exports of other products that were brought in, and what has become of what. What is here comes no second time.
CREATE TABLE imports (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  format text NOT NULL,
  -- What tells a workspace from others of the same product.
  origin text NOT NULL,
  began_at bigint NOT NULL DEFAULT floor(extract(epoch FROM now()))::bigint,
  -- Since then people can see it, and nothing more is written into it.
  finished_at bigint,
  UNIQUE (format, origin)
);

CREATE TABLE import_items (
  import_id bigint NOT NULL REFERENCES imports ON DELETE CASCADE,
  -- server, role, category, channel, direct, emoji, webhook or message
  kind text NOT NULL,
  foreign_id text NOT NULL,
  own_id bigint NOT NULL,
  PRIMARY KEY (import_id, kind, foreign_id)
);
-- No two have one id, though their times may be the same.
CREATE UNIQUE INDEX import_items_own ON import_items (import_id, own_id);

CREATE TABLE import_users (
  import_id bigint NOT NULL REFERENCES imports ON DELETE CASCADE,
  foreign_id text NOT NULL,
  user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
  nickname text,
  -- By the export's id of a server, the export's ids of roles.
  roles jsonb NOT NULL,
  PRIMARY KEY (import_id, foreign_id)
);
CREATE INDEX import_users_user ON import_users (user_id);
