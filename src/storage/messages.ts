import type { Snowflake } from "../contract/fields.ts"
import type { MessageState } from "../domain/states.ts"
import type { Sql, Statement, Statements } from "./database.ts"
import { column, defineWrite } from "./write.ts"

export interface MessageRow {
  channel_id: Snowflake
  id: Snowflake
  server_id: Snowflake | null
  author_id: Snowflake
  content: string | null
  reply_to_id: Snowflake | null
  nonce: string | null
}

/** The arrays of a batch of new messages, in the order of `messageColumns`. */
export const messageColumns = "channel_id, id, server_id, author_id, content, reply_to_id, nonce"
export const messageArrays = (sql: Statements, rows: readonly MessageRow[]): Statement => sql`
  unnest(${column(rows, "channel_id")}::bigint[], ${column(rows, "id")}::bigint[], ${column(rows, "server_id")}::bigint[],
    ${column(rows, "author_id")}::bigint[], ${column(rows, "content")}::text[], ${column(rows, "reply_to_id")}::bigint[], ${column(rows, "nonce")}::text[])`

export const insertMessage = defineWrite<MessageRow>(
  "insertMessage",
  (sql, rows) => sql`
    INSERT INTO messages (channel_id, id, server_id, author_id, content, reply_to_id, nonce) SELECT * FROM ${messageArrays(sql, rows)}`,
)

export const updateContent = defineWrite<{ channel_id: Snowflake; id: Snowflake; content: string; edited_at: number }>(
  "updateContent",
  (sql, rows) => {
    const last = [...new Map(rows.map(row => [row.id, row])).values()]
    return sql`
    UPDATE messages SET content = t.content, edited_at = t.edited_at
    FROM unnest(${column(last, "channel_id")}::bigint[], ${column(last, "id")}::bigint[], ${column(last, "content")}::text[], ${column(last, "edited_at")}::bigint[])
      AS t (channel_id, id, content, edited_at)
    WHERE messages.channel_id = t.channel_id AND messages.id = t.id`
  },
)

/** Deletes messages and keeps their nonces. */
export const deleteMessage = defineWrite<{ channel_id: Snowflake; id: Snowflake }>(
  "deleteMessage",
  (sql, rows) => sql`
    WITH gone AS (
      DELETE FROM messages USING unnest(${column(rows, "channel_id")}::bigint[], ${column(rows, "id")}::bigint[]) AS t (channel_id, id)
      WHERE messages.channel_id = t.channel_id AND messages.id = t.id
      RETURNING messages.channel_id, messages.author_id, messages.nonce, messages.id)
    INSERT INTO spent_nonces (channel_id, author_id, nonce, message_id)
    SELECT channel_id, author_id, nonce, id FROM gone WHERE nonce IS NOT NULL ON CONFLICT DO NOTHING`,
)

const columns = (sql: Sql) => sql`
  m.id, m.channel_id, m.server_id, m.author_id, u.username AS author_username, u.badges AS author_badges, m.content, m.edited_at, m.reply_to_id, m.nonce,
  false AS pinned`

export interface Page {
  limit: number
  before?: Snowflake | undefined
  after?: Snowflake | undefined
}

/** Key of a message among those of its server's home. */
export const messageKey = (channel: Snowflake, id: Snowflake) => `${channel}:${id}`
/** Key of a nonce among those of its server's home. */
export const nonceKey = (channel: Snowflake, author: Snowflake, nonce: string) => `${channel}:${author}:${nonce}`

export const messagesStorage = (sql: Sql) => ({
  /** Newest first; with `after` alone oldest first. */
  async page(channel: Snowflake, { limit, before, after }: Page): Promise<MessageState[]> {
    if (before === undefined && after !== undefined)
      return sql<MessageState[]>`
        SELECT ${columns(sql)} FROM messages m JOIN users u ON u.id = m.author_id
        WHERE m.channel_id = ${channel} AND m.id > ${after} ORDER BY m.id LIMIT ${limit}`
    return sql<MessageState[]>`
      SELECT ${columns(sql)} FROM messages m JOIN users u ON u.id = m.author_id
      WHERE m.channel_id = ${channel} AND m.id < ${before ?? "9223372036854775807"} ORDER BY m.id DESC LIMIT ${limit}`
  },

  async find(channel: Snowflake, ids: readonly Snowflake[]): Promise<Map<Snowflake, MessageState>> {
    const rows = await sql<MessageState[]>`
      SELECT ${columns(sql)} FROM messages m JOIN users u ON u.id = m.author_id
      WHERE m.channel_id = ${channel} AND m.id = ANY(${[...ids]}::bigint[])`
    return new Map(rows.map(row => [row.id, row]))
  },

  /** When an author last posted in a channel since `since`, as a message id. */
  async lastPost(channel: Snowflake, author: Snowflake, since: Snowflake): Promise<Snowflake | undefined> {
    const [row] = await sql<{ id: Snowflake }[]>`
      SELECT id FROM messages WHERE channel_id = ${channel} AND id > ${since} AND author_id = ${author} ORDER BY id DESC LIMIT 1`
    return row?.id
  },

  /** Deletes some of what is left of channels that are gone. @returns how many messages it deleted */
  async purge(channels: readonly Snowflake[], limit: number): Promise<number> {
    const rows = await sql`
      DELETE FROM messages WHERE (channel_id, id) IN (
        SELECT channel_id, id FROM messages WHERE channel_id = ANY(${[...channels]}::bigint[]) LIMIT ${limit}) RETURNING 1`
    if (rows.length < limit) await sql`DELETE FROM spent_nonces WHERE channel_id = ANY(${[...channels]}::bigint[])`
    return rows.length
  },

  /** The messages that were sent with these nonces; those deleted since come back without content. */
  async byNonces(
    keys: readonly { channel: Snowflake; author: Snowflake; nonce: string }[],
  ): Promise<Map<string, MessageState>> {
    const channels = keys.map(key => key.channel),
      authors = keys.map(key => key.author),
      nonces = keys.map(key => key.nonce)
    const [kept, spent] = await Promise.all([
      sql<MessageState[]>`
        SELECT ${columns(sql)} FROM unnest(${channels}::bigint[], ${authors}::bigint[], ${nonces}::text[]) AS k (channel_id, author_id, nonce)
        JOIN messages m USING (channel_id, author_id, nonce) JOIN users u ON u.id = m.author_id`,
      sql<MessageState[]>`
        SELECT s.message_id AS id, s.channel_id, c.server_id, s.author_id, u.username AS author_username, u.badges AS author_badges,
          NULL AS content, NULL AS edited_at, NULL AS reply_to_id, s.nonce, false AS pinned, true AS deleted
        FROM unnest(${channels}::bigint[], ${authors}::bigint[], ${nonces}::text[]) AS k (channel_id, author_id, nonce)
        JOIN spent_nonces s USING (channel_id, author_id, nonce) JOIN users u ON u.id = s.author_id LEFT JOIN channels c ON c.id = s.channel_id`,
    ])
    return new Map([...spent, ...kept].map(row => [nonceKey(row.channel_id, row.author_id, row.nonce!), row]))
  },
})
