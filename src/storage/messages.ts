import type { Snowflake } from "../contract/fields.ts"
import type { MessageState } from "../domain/states.ts"
import type { Sql, Statement, Statements } from "./database.ts"
import { column, defineWrite, lastOf } from "./write.ts"

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

/** A nonce that memory has forgotten: the command runs again and looks it up. Each partition has an index of its own. */
const nonceRepeated = Object.fromEntries(
  Array.from({ length: 16 }, (_, part) => [`messages_${part}_nonce`, "again" as const]),
)

export const insertMessage = defineWrite<MessageRow>(
  "insertMessage",
  (sql, rows) => sql`
    INSERT INTO messages (channel_id, id, server_id, author_id, content, reply_to_id, nonce) SELECT * FROM ${messageArrays(sql, rows)}`,
  nonceRepeated,
)

/** What a webhook sent: the webhook is its author, whose name and picture are kept as they were shown. */
export interface WebhookMessageRow extends Pick<
  MessageRow,
  "channel_id" | "id" | "server_id" | "author_id" | "content" | "nonce"
> {
  webhook_name: string
  webhook_avatar_url?: string | null
  embeds?: readonly unknown[] | null
}

/** Beside `insertMessage`, which is the statement that there is most of, and stays as narrow as it is. */
export const insertWebhookMessage = defineWrite<WebhookMessageRow>(
  "insertWebhookMessage",
  (sql, rows) => sql`
    INSERT INTO messages (channel_id, id, server_id, author_id, content, nonce, webhook_id, webhook_name, webhook_avatar_url, embeds)
    SELECT t.channel_id, t.id, t.server_id, t.author_id, t.content, t.nonce, t.author_id, t.webhook_name, t.webhook_avatar_url, t.embeds::json
    FROM unnest(${column(rows, "channel_id")}::bigint[], ${column(rows, "id")}::bigint[], ${column(rows, "server_id")}::bigint[],
      ${column(rows, "author_id")}::bigint[], ${column(rows, "content")}::text[], ${column(rows, "nonce")}::text[],
      ${column(rows, "webhook_name")}::text[], ${column(rows, "webhook_avatar_url")}::text[],
      ${rows.map(({ embeds }) => (embeds ? JSON.stringify(embeds) : null))}::text[])
      AS t (channel_id, id, server_id, author_id, content, nonce, webhook_name, webhook_avatar_url, embeds)`,
  nonceRepeated,
)

export const updateContent = defineWrite<{ channel_id: Snowflake; id: Snowflake; content: string; edited_at: number }>(
  "updateContent",
  (sql, rows) => {
    const last = lastOf(rows, row => row.id)
    return sql`
    UPDATE messages SET content = t.content, edited_at = t.edited_at
    FROM unnest(${column(last, "channel_id")}::bigint[], ${column(last, "id")}::bigint[], ${column(last, "content")}::text[], ${column(last, "edited_at")}::bigint[])
      AS t (channel_id, id, content, edited_at)
    WHERE messages.channel_id = t.channel_id AND messages.id = t.id`
  },
)

/** Deletes messages; of one that had a nonce an empty row is left. */
export const deleteMessage = defineWrite<{ channel_id: Snowflake; id: Snowflake; nonce: string | null }>(
  "deleteMessage",
  (sql, rows) => {
    const left = rows.filter(row => row.nonce !== null)
    const gone = rows.filter(row => row.nonce === null)
    return sql`
      WITH left_over AS (
        UPDATE messages SET deleted = true, content = NULL, reply_to_id = NULL, edited_at = NULL, embeds = NULL, webhook_avatar_url = NULL
        FROM unnest(${column(left, "channel_id")}::bigint[], ${column(left, "id")}::bigint[]) AS t (channel_id, id)
        WHERE messages.channel_id = t.channel_id AND messages.id = t.id)
      DELETE FROM messages USING unnest(${column(gone, "channel_id")}::bigint[], ${column(gone, "id")}::bigint[]) AS t (channel_id, id)
      WHERE messages.channel_id = t.channel_id AND messages.id = t.id`
  },
)

/** What somebody wrote in a server between two ids; see the job `deleteMessagesOf`. */
export interface MessageDeletion {
  server_id: Snowflake
  user_id: Snowflake
  after: Snowflake
  before: Snowflake
}

/** Until it is done: the queue may forget what it was told. */
export const putMessageDeletion = defineWrite<MessageDeletion>(
  "putMessageDeletion",
  (sql, rows) => sql`
    INSERT INTO message_deletions (server_id, user_id, after_id, before_id)
    SELECT * FROM unnest(${column(rows, "server_id")}::bigint[], ${column(rows, "user_id")}::bigint[], ${column(rows, "after")}::bigint[],
      ${column(rows, "before")}::bigint[])
    ON CONFLICT DO NOTHING`,
)

const columns = (sql: Sql) => sql`
  m.id, m.channel_id, m.server_id, m.author_id, coalesce(u.username, m.webhook_name, 'User ' || m.author_id) AS author_username, coalesce(u.bot, false) AS author_bot,
  coalesce(u.badges, '{}') AS author_badges, m.content, m.edited_at, m.reply_to_id, m.nonce, m.webhook_id, m.webhook_name, m.webhook_avatar_url, m.embeds,
  m.deleted, false AS pinned`

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
        SELECT ${columns(sql)} FROM messages m LEFT JOIN users u ON u.id = m.author_id
        WHERE m.channel_id = ${channel} AND m.id > ${after} AND NOT m.deleted ORDER BY m.id LIMIT ${limit}`
    return sql<MessageState[]>`
      SELECT ${columns(sql)} FROM messages m LEFT JOIN users u ON u.id = m.author_id
      WHERE m.channel_id = ${channel} AND m.id < ${before ?? "9223372036854775807"} AND NOT m.deleted ORDER BY m.id DESC LIMIT ${limit}`
  },

  async find(channel: Snowflake, ids: readonly Snowflake[]): Promise<Map<Snowflake, MessageState>> {
    const rows = await sql<MessageState[]>`
      SELECT ${columns(sql)} FROM messages m LEFT JOIN users u ON u.id = m.author_id
      WHERE m.channel_id = ${channel} AND m.id = ANY(${[...ids]}::bigint[]) AND NOT m.deleted`
    return new Map(rows.map(row => [row.id, row]))
  },

  /** When an author last posted in a channel since `since`, as a message id. */
  async lastPost(channel: Snowflake, author: Snowflake, since: Snowflake): Promise<Snowflake | undefined> {
    const [row] = await sql<{ id: Snowflake }[]>`
      SELECT id FROM messages WHERE channel_id = ${channel} AND id > ${since} AND author_id = ${author} ORDER BY id DESC LIMIT 1`
    return row?.id
  },

  /**
   * What an author wrote in a channel between two ids, oldest first, among so many messages, whoever wrote them.
   * @returns `last`: which of them was looked at last, if there may be more
   */
  async ofAuthor(
    channel: Snowflake,
    author: Snowflake,
    { after, before, among }: { after: Snowflake; before: Snowflake; among: number },
  ): Promise<{ ids: Snowflake[]; last: Snowflake | undefined }> {
    const [row] = await sql<{ ids: Snowflake[]; last: Snowflake; looked: number }[]>`
      SELECT coalesce(array_agg(id::text ORDER BY id) FILTER (WHERE author_id = ${author} AND NOT deleted), '{}') AS ids,
        max(id) AS last, count(*)::int AS looked
      FROM (SELECT id, author_id, deleted FROM messages WHERE channel_id = ${channel} AND id > ${after} AND id < ${before}
        ORDER BY id LIMIT ${among}) AS m`
    const { ids, last, looked } = row!
    return { ids, last: looked < among ? undefined : last }
  },

  /** Deletions that were asked for before an id was minted. */
  async deletionsDue(before: Snowflake, limit: number): Promise<MessageDeletion[]> {
    return sql<MessageDeletion[]>`
      SELECT server_id, user_id, after_id AS after, before_id AS before FROM message_deletions WHERE before_id < ${before} LIMIT ${limit}`
  },

  async endDeletion({ server_id, user_id, before }: MessageDeletion): Promise<void> {
    await sql`
      DELETE FROM message_deletions WHERE server_id = ${server_id} AND user_id = ${user_id} AND before_id = ${before}`
  },

  /** Deletes some of what is left of channels that are gone. @returns how many messages it deleted */
  async purge(channels: readonly Snowflake[], limit: number): Promise<number> {
    const rows = await sql`
      DELETE FROM messages WHERE (channel_id, id) IN (
        SELECT channel_id, id FROM messages WHERE channel_id = ANY(${[...channels]}::bigint[]) LIMIT ${limit}) RETURNING 1`
    return rows.length
  },

  /** The next channels that messages name, in the order of ids, and whether they are gone: each is one look into an index. */
  async channelsNamed(after: Snowflake, limit: number): Promise<{ id: Snowflake; is_gone: boolean }[]> {
    return sql<{ id: Snowflake; is_gone: boolean }[]>`
      WITH RECURSIVE named (id, server_id, place) AS (
        (SELECT channel_id, server_id, 1 FROM messages WHERE channel_id > ${after} ORDER BY channel_id, id LIMIT 1)
        UNION ALL
        SELECT following.channel_id, following.server_id, place + 1
        FROM named, LATERAL (SELECT channel_id, server_id FROM messages WHERE channel_id > named.id ORDER BY channel_id, id LIMIT 1) AS following
        WHERE place < ${limit})
      SELECT id, server_id IS NOT NULL AND NOT EXISTS (SELECT FROM channels c WHERE c.id = named.id) AS is_gone FROM named ORDER BY place`
  },

  /** The messages that were sent with these nonces; those deleted since come back without content. */
  async byNonces(
    keys: readonly { channel: Snowflake; author: Snowflake; nonce: string }[],
  ): Promise<Map<string, MessageState>> {
    const channels = keys.map(key => key.channel),
      authors = keys.map(key => key.author),
      nonces = keys.map(key => key.nonce)
    const rows = await sql<MessageState[]>`
      SELECT ${columns(sql)}
      FROM unnest(${channels}::bigint[], ${authors}::bigint[], ${nonces}::text[]) AS k (channel_id, author_id, nonce)
      JOIN messages m USING (channel_id, author_id, nonce) LEFT JOIN users u ON u.id = m.author_id`
    return new Map(rows.map(row => [nonceKey(row.channel_id, row.author_id, row.nonce!), row]))
  },
})
