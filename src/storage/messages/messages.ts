import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { AttachmentState } from "../../domain/messages/attachments.ts"
import type { MessageState } from "../../domain/messages/messages.ts"
import type { Actor } from "../../domain/accounts/accounts.ts"
import { highestId } from "../../domain/core/snowflake.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { bytesOfRow, messagesWithin, within, type MessagesWithin } from "./message-rows.ts"
import { personalData as pinsPersonalData, pinReads } from "./pins.ts"
import { endUploadUses } from "./uploads.ts"
import { column, defineWrite, lastOf, numbers, texts, type StatementPart } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    messages: {
      userColumns: ["author_id"],
      key: { channel_id: "bigint", id: "bigint" },
      given: [
        "channel_id",
        "id",
        "server_id",
        "author_id",
        "content",
        "edited_at",
        "reply_to_id",
        "nonce",
        "deleted",
        "webhook_id",
        "webhook_name",
        "webhook_avatar_url",
        "embeds",
        "attachments",
        "poll",
        "pinned_at",
      ],
      leftOut: { reactions: "What others made of it is theirs; what the person reacted with is in reactors" },
      atPurge: "kept",
    },
  },
  ...pinsPersonalData,
}
/** In a table of its own: exports deliver it before the messages. */
export const deletionsPersonalData: PersonalData = {
  personal: {
    message_deletions: {
      userColumns: ["user_id"],
      key: { server_id: "bigint", user_id: "bigint", before_id: "bigint" },
      given: ["server_id", "user_id", "after_id", "before_id"],
      atPurge: "erased",
    },
  },
}

export interface MessageRow {
  channel_id: Snowflake
  id: Snowflake
  server_id: Snowflake | null
  author_id: Snowflake
  content: string | null
  reply_to_id: Snowflake | null
  nonce: string | null
}

const messageColumns = "channel_id, id, server_id, author_id, content, reply_to_id, nonce"
/** A batch of new messages as rows of these columns. */
const newMessages = (rows: readonly MessageRow[]): StatementPart => ({
  text: before => `
    unnest($${before + 1}::bigint[], $${before + 2}::bigint[], $${before + 3}::bigint[], $${before + 4}::bigint[], $${before + 5}::text[],
      $${before + 6}::bigint[], $${before + 7}::text[])`,
  parameters: [
    numbers(rows, row => row.channel_id),
    numbers(rows, row => row.id),
    numbers(rows, row => row.server_id),
    numbers(rows, row => row.author_id),
    texts(rows, row => row.content),
    numbers(rows, row => row.reply_to_id),
    texts(rows, row => row.nonce),
  ],
})
const insertInto = `INSERT INTO messages (${messageColumns})`

/**
 * A nonce that is no longer in memory: the command runs again and looks it up. Each partition has
 * an index of its own.
 */
const nonceRepeated = Object.fromEntries(
  Array.from({ length: 16 }, (_, part) => [`messages_${part}_nonce`, "again" as const]),
)

export const insertMessage = defineWrite<MessageRow>(
  "insertMessage",
  (sql, rows) => {
    const { text, parameters } = newMessages(rows)
    return sql.unsafe(`${insertInto} SELECT * FROM ${text(0)}`, [...parameters], { prepare: true })
  },
  nonceRepeated,
  rows => {
    const { text, parameters } = newMessages(rows)
    return { text: before => `sent AS (${insertInto} SELECT t.* FROM lane, ${text(before)} AS t)`, parameters }
  },
)

/**
 * A message with what it has beside its text. What a webhook sent keeps its name and picture as
 * they were shown: the webhook is its author.
 */
export type FullMessageRow = MessageRow &
  Pick<MessageState, "webhook_id" | "webhook_name" | "webhook_avatar_url" | "embeds" | "attachments" | "poll">

/** Separate from `insertMessage`: that is the most frequent statement and stays narrow. */
export const insertFullMessage = defineWrite<FullMessageRow>(
  "insertFullMessage",
  (sql, rows) => sql`
    INSERT INTO messages (${sql.unsafe(messageColumns)}, webhook_id, webhook_name, webhook_avatar_url, embeds, attachments, poll)
    SELECT t.channel_id, t.id, t.server_id, t.author_id, t.content, t.reply_to_id, t.nonce, t.webhook_id, t.webhook_name, t.webhook_avatar_url,
      t.embeds::json, t.attachments::json, t.poll::json
    FROM unnest(${column(rows, "channel_id")}::bigint[], ${column(rows, "id")}::bigint[], ${column(rows, "server_id")}::bigint[],
      ${column(rows, "author_id")}::bigint[], ${column(rows, "content")}::text[], ${column(rows, "reply_to_id")}::bigint[], ${column(rows, "nonce")}::text[],
      ${column(rows, "webhook_id")}::bigint[], ${column(rows, "webhook_name")}::text[], ${column(rows, "webhook_avatar_url")}::text[],
      ${jsonOf(rows, "embeds")}::text[], ${jsonOf(rows, "attachments")}::text[], ${jsonOf(rows, "poll")}::text[])
      AS t (${sql.unsafe(messageColumns)}, webhook_id, webhook_name, webhook_avatar_url, embeds, attachments, poll)`,
  nonceRepeated,
)

const jsonOf = (rows: readonly FullMessageRow[], key: "embeds" | "attachments" | "poll") =>
  rows.map(row => (row[key] ? JSON.stringify(row[key]) : null))

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

/** More is known of a message's files. */
export const updateAttachments = defineWrite<{
  channel_id: Snowflake
  id: Snowflake
  attachments: readonly Readonly<AttachmentState>[]
}>("updateAttachments", (sql, rows) => {
  const last = lastOf(rows, row => row.id)
  return sql`
    UPDATE messages SET attachments = t.attachments::json
    FROM unnest(${column(last, "channel_id")}::bigint[], ${column(last, "id")}::bigint[], ${last.map(row => JSON.stringify(row.attachments))}::text[])
      AS t (channel_id, id, attachments)
    WHERE messages.channel_id = t.channel_id AND messages.id = t.id AND NOT messages.deleted`
})

/**
 * Deletes messages. An empty row is left of a message that may be asked for again, by its nonce or
 * for slow mode.
 */
export const deleteMessage = defineWrite<{ channel_id: Snowflake; id: Snowflake; isLeft: boolean }>(
  "deleteMessage",
  (sql, rows) => {
    const left = rows.filter(({ isLeft }) => isLeft)
    const gone = rows.filter(({ isLeft }) => !isLeft)
    return sql`
      WITH deleted_here AS MATERIALIZED (
        SELECT * FROM unnest(${column(rows, "channel_id")}::bigint[], ${column(rows, "id")}::bigint[]) AS t (channel_id, id)),
      ${endUploadUses(sql, "deleted_here")},
      polls_left AS (
        UPDATE polls SET gone = true, ends_at = NULL
        FROM unnest(${column(rows, "channel_id")}::bigint[], ${column(rows, "id")}::bigint[]) AS t (channel_id, id)
        WHERE polls.channel_id = t.channel_id AND polls.message_id = t.id AND NOT polls.gone),
      left_over AS (
        UPDATE messages SET deleted = true, content = NULL, reply_to_id = NULL, edited_at = NULL, embeds = NULL, webhook_avatar_url = NULL,
          attachments = NULL, reactions = NULL, poll = NULL, pinned_at = NULL
        FROM unnest(${column(left, "channel_id")}::bigint[], ${column(left, "id")}::bigint[]) AS t (channel_id, id)
        WHERE messages.channel_id = t.channel_id AND messages.id = t.id)
      DELETE FROM messages USING unnest(${column(gone, "channel_id")}::bigint[], ${column(gone, "id")}::bigint[]) AS t (channel_id, id)
      WHERE messages.channel_id = t.channel_id AND messages.id = t.id`
  },
)

/** The messages of a user in a server between two ids; see the job `deleteMessagesOf`. */
export interface MessageDeletion {
  server_id: Snowflake
  user_id: Snowflake
  after: Snowflake
  before: Snowflake
}

/** Kept until it is done, because the queue may lose the job. */
export const putMessageDeletion = defineWrite<MessageDeletion>(
  "putMessageDeletion",
  (sql, rows) => sql`
    INSERT INTO message_deletions (server_id, user_id, after_id, before_id)
    SELECT * FROM unnest(${column(rows, "server_id")}::bigint[], ${column(rows, "user_id")}::bigint[], ${column(rows, "after")}::bigint[],
      ${column(rows, "before")}::bigint[])
    ON CONFLICT DO NOTHING`,
)

/** The columns of a `MessageState`, from `messages m` and `users u`. */
export const messageFields = (sql: Sql) => sql`
  m.id, m.channel_id, m.server_id, m.author_id, coalesce(u.username, m.webhook_name, 'User ' || m.author_id) AS author_username, coalesce(u.bot, false) AS author_bot,
  coalesce(u.badges, '{}') AS author_badges, m.content, m.edited_at, m.reply_to_id, m.nonce, m.webhook_id, m.webhook_name, m.webhook_avatar_url, m.embeds,
  m.deleted,
  m.attachments, m.reactions, m.poll, m.pinned_at`

export interface Page {
  limit: number
  before?: Snowflake | undefined
  after?: Snowflake | undefined
  around?: Snowflake | undefined
}

type Full = Required<MessageState>
/** What most messages do not have, in the order of `rarities`. */
type Rarities = [
  edited_at: Full["edited_at"],
  webhook_id: Full["webhook_id"],
  webhook_name: Full["webhook_name"],
  webhook_avatar_url: Full["webhook_avatar_url"],
  embeds: Full["embeds"],
  attachments: Full["attachments"],
  reactions: Full["reactions"],
  poll: Full["poll"],
  pinned_at: Full["pinned_at"],
]
const noRarities: Rarities = [null, null, null, null, null, null, null, null, null]

type AuthorRow = [id: Snowflake, username: string, bot: boolean, badges: string[]]

/**
 * Messages of one channel as one row: each column holds one field of all of them, in their order.
 * If there are none, all columns but `found` are null.
 */
interface PageRow {
  server_id: Snowflake | null
  /** As PostgreSQL writes an array of numbers. */
  ids: string | null
  author_ids: string
  replies: string
  contents: (string | null)[]
  nonces: (string | null)[]
  /** By message, of those that have any. */
  rarities: Record<Snowflake, Rarities> | null
  authors: AuthorRow[] | null
  /** Messages before the bound on bytes; null: they are too many, and the long columns are null. */
  found: number | null
}

const rarities =
  "edited_at, webhook_id, webhook_name, webhook_avatar_url, embeds, attachments, reactions, poll, pinned_at"

/**
 * A page as one row: fifty rows of twenty columns take postgres.js five times as long. The
 * aggregates keep the order of the messages because nothing is joined to them; each author is
 * looked up once.
 */
const rowOf = (page: string, found: string) => `
  SELECT server_id, ids, author_ids::text AS author_ids, replies, nonces, found, CASE WHEN found IS NOT NULL THEN contents END AS contents,
    CASE WHEN found IS NOT NULL THEN rarities END AS rarities,
    (SELECT json_agg(json_build_array(u.id::text, u.username, u.bot, u.badges)) FROM users u WHERE u.id = ANY(author_ids)) AS authors
  FROM (SELECT min(server_id) AS server_id, array_agg(id)::text AS ids, array_agg(author_id) AS author_ids, array_agg(reply_to_id)::text AS replies,
      json_agg(content) AS contents, json_agg(nonce) AS nonces,
      json_object_agg(id, json_build_array(${rarities.replace("webhook_id", "webhook_id::text")})) FILTER (WHERE num_nonnulls(${rarities}) > 0) AS rarities,
      ${found} AS found
    FROM (${page}) AS page) AS gathered`

/**
 * The statements of a page, put together once: from nested templates postgres.js would make the
 * text of each page anew, which takes it longer than all the rest. $1: the channel, $2: the place,
 * $3: the most messages, $4: the most bytes.
 * @param first where the bound on bytes begins
 * @param order of the page, if that is another one
 */
function pageTexts(range: string, first = "", order = "") {
  const nearest = `SELECT * FROM (${range}) AS nearest LIMIT $3::int`
  return {
    whole: rowOf(nearest, `CASE WHEN sum(${bytesOfRow}) <= $4::int THEN count(*)::int END`),
    // Where each message would stop only a window says, which makes a page a third slower.
    cut: rowOf(`${within(nearest, "$4::int", first)} ${order}`, "max(found)"),
  }
}

const pageColumns = `id, server_id, author_id, content, reply_to_id, nonce, ${rarities}`
const standing = `SELECT ${pageColumns} FROM messages WHERE channel_id = $1::bigint AND NOT deleted`
/**
 * The LIMIT within is a constant where it can be: for one that it does not know PostgreSQL makes a
 * new plan each time, which takes longer than the page.
 */
const pages = {
  before: pageTexts(`${standing} AND id < $2::bigint ORDER BY id DESC LIMIT ${limits.pageSize}`),
  after: pageTexts(`${standing} AND id > $2::bigint ORDER BY id LIMIT ${limits.pageSize}`),
  // The bound on bytes leaves out the messages that are farthest from the one in the middle.
  around: pageTexts(
    `(${standing} AND id > $2::bigint ORDER BY id LIMIT ($3::int - 1) / 2)
      UNION ALL (${standing} AND id <= $2::bigint ORDER BY id DESC LIMIT $3::int - ($3::int - 1) / 2) ORDER BY id DESC`,
    "ORDER BY abs(id - $2::bigint)",
    "ORDER BY id DESC",
  ),
}

/** The numbers in what PostgreSQL writes of an array of them. */
const numbersIn = (text: string): string[] => text.slice(1, -1).split(",")

function messagesIn(row: PageRow, channel_id: Snowflake): MessagesWithin {
  const { server_id, contents, nonces } = row
  if (row.ids === null) return { messages: [], isCut: false }
  const [authorIds, replies] = [numbersIn(row.author_ids), numbersIn(row.replies)]
  const authors = new Map(row.authors?.map(author => [author[0], author]))
  // The fields are written out: a spread into an object of so many fields takes ten times as long.
  const messages = numbersIn(row.ids).map((id, i): MessageState => {
    const author_id = authorIds[i]!
    const author = authors.get(author_id)
    const rare = row.rarities?.[id] ?? noRarities
    return {
      id,
      channel_id,
      server_id,
      author_id,
      author_username: author?.[1] ?? rare[2] ?? `User ${author_id}`,
      author_bot: author?.[2] ?? false,
      author_badges: author?.[3] ?? [],
      content: contents[i]!,
      edited_at: rare[0],
      reply_to_id: replies[i] === "NULL" ? null : replies[i]!,
      nonce: nonces[i]!,
      webhook_id: rare[1],
      webhook_name: rare[2],
      webhook_avatar_url: rare[3],
      embeds: rare[4],
      deleted: false,
      attachments: rare[5],
      reactions: rare[6],
      poll: rare[7],
      pinned_at: rare[8],
    }
  })
  return { messages, isCut: messages.length < row.found! }
}

/** Key of a message among those of its server's home. */
export const messageKey = (channel: Snowflake, id: Snowflake) => `${channel}:${id}`
/** Key of a nonce among those of its server's home. */
export const nonceKey = (channel: Snowflake, author: Snowflake, nonce: string) => `${channel}:${author}:${nonce}`

/** What is deleted afterwards: of banned users and of deleted channels. */
const deletionStorage = (sql: Sql) => ({
  /** Deletions that were requested before an id was made. */
  async deletionsDue(before: Snowflake, limit: number): Promise<MessageDeletion[]> {
    return sql<MessageDeletion[]>`
      SELECT server_id, user_id, after_id AS after, before_id AS before FROM message_deletions WHERE before_id < ${before} LIMIT ${limit}`
  },

  async endDeletion({ server_id, user_id, before }: MessageDeletion): Promise<void> {
    await sql`
      DELETE FROM message_deletions WHERE server_id = ${server_id} AND user_id = ${user_id} AND before_id = ${before}`
  },

  /** Deletes some of the messages of deleted channels. @returns how many messages it deleted */
  async purge(channels: readonly Snowflake[], limit: number): Promise<number> {
    const rows = await sql`
      WITH purged AS (
        DELETE FROM messages WHERE (channel_id, id) IN (
          SELECT channel_id, id FROM messages WHERE channel_id = ANY(${[...channels]}::bigint[]) LIMIT ${limit})
        RETURNING channel_id, id),
      ${endUploadUses(sql, "purged")},
      unindexed AS (
        DELETE FROM message_search s USING purged WHERE s.channel_id = purged.channel_id AND s.message_id = purged.id),
      unpictured AS (
        DELETE FROM thumbnail_requests t USING purged WHERE t.channel_id = purged.channel_id AND t.message_id = purged.id),
      uncalled AS (
        DELETE FROM message_mentions n USING purged WHERE n.channel_id = purged.channel_id AND n.message_id = purged.id),
      polls_left AS (
        UPDATE polls SET gone = true, ends_at = NULL FROM purged
        WHERE polls.channel_id = purged.channel_id AND polls.message_id = purged.id AND NOT polls.gone)
      SELECT FROM purged`
    return rows.length
  },

  /**
   * Deletes some of the search rows of deleted channels, after their messages: the entries of the
   * list of messages to index, rows of the index, and blocks. @returns how many rows of the index, or
   * blocks, if these were more
   */
  async purgeSearched(channels: readonly Snowflake[], limit: number): Promise<number> {
    const ids = [...channels]
    // A step of the index that has read the messages before they were deleted is over after this.
    await sql`
      SELECT FROM message_search_positions WHERE shard = ANY(SELECT ((id >> 12) & 1023)::smallint FROM unnest(${ids}::bigint[]) AS id)
      ORDER BY shard FOR UPDATE`
    await sql`DELETE FROM message_search_backlog WHERE channel_id = ANY(${ids}::bigint[])`
    const { count } = await sql`
      DELETE FROM message_search WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM message_search WHERE channel_id = ANY(${ids}::bigint[]) LIMIT ${limit}))`
    const blocks = await sql`
      DELETE FROM message_search_blocks WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM message_search_blocks WHERE channel_id = ANY(${ids}::bigint[]) LIMIT ${limit}))`
    return Math.max(count, blocks.count)
  },

  /**
   * The next channels that messages name, in the order of ids, and whether they are gone: each is
   * one look into an index.
   */
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
})

/** Reads of messages and of what extends their rows. */
export const messagesStorage = (sql: Sql) => ({
  ...deletionStorage(sql),

  ...pinReads(sql, messageFields(sql)),

  /**
   * Newest first; with `after` alone oldest first. `around` wins over `before`, that over `after`.
   * At least one message, if there is any, and no more of them than have `maxBytes`.
   */
  async page(
    channel: Snowflake,
    { limit, before, after, around }: Page,
    maxBytes: number = limits.messagesPageBytes,
  ): Promise<MessagesWithin> {
    const [texts, place] =
      around !== undefined
        ? [pages.around, around]
        : before === undefined && after !== undefined
          ? [pages.after, after]
          : [pages.before, before ?? highestId]
    const rowOf = async (text: string) => {
      const [row] = await sql.unsafe<[PageRow]>(text, [channel, place, limit, maxBytes], { prepare: true })
      return row
    }
    const whole = await rowOf(texts.whole)
    return messagesIn(whole.ids === null || whole.found !== null ? whole : await rowOf(texts.cut), channel)
  },

  async find(channel: Snowflake, ids: readonly Snowflake[]): Promise<Map<Snowflake, MessageState>> {
    const rows = await sql<MessageState[]>`
      SELECT ${messageFields(sql)} FROM messages m LEFT JOIN users u ON u.id = m.author_id
      WHERE m.channel_id = ${channel} AND m.id = ANY(${[...ids]}::bigint[]) AND NOT m.deleted`
    return new Map(rows.map(row => [row.id, row]))
  },

  /** The newest of these messages that fit into so many bytes together, the newest first. */
  newestWithin: (
    channel: Snowflake,
    ids: readonly Snowflake[],
    maxBytes: number = limits.messagesPageBytes,
  ): Promise<MessagesWithin> =>
    messagesWithin(
      sql,
      maxBytes,
      sql`SELECT ${messageFields(sql)} FROM messages m LEFT JOIN users u ON u.id = m.author_id
        WHERE m.channel_id = ${channel} AND m.id = ANY(${[...ids]}::bigint[]) AND NOT m.deleted`,
      "ORDER BY id DESC",
    ),

  /**
   * The author of a message with their current name; undefined: a webhook, or there is no such
   * message.
   */
  async authorOf(channel: Snowflake, id: Snowflake): Promise<Actor | undefined> {
    const [row] = await sql<Actor[]>`
      SELECT u.id, u.username, u.bot, u.badges FROM messages m JOIN users u ON u.id = m.author_id
      WHERE m.channel_id = ${channel} AND m.id = ${id} AND NOT m.deleted`
    return row
  },

  /** The ids of what authors last posted in a channel since `since`, deleted or not, by author. */
  async lastPosts(
    channel: Snowflake,
    authors: readonly Snowflake[],
    since: Snowflake,
  ): Promise<Map<Snowflake, Snowflake>> {
    const rows = await sql<{ author_id: Snowflake; id: Snowflake }[]>`
      SELECT t.author_id, last.id FROM unnest(${[...authors]}::bigint[]) AS t (author_id), LATERAL (
        SELECT m.id FROM messages m WHERE m.channel_id = ${channel} AND m.id > ${since} AND m.author_id = t.author_id
        ORDER BY m.id DESC LIMIT 1) AS last`
    return new Map(rows.map(({ author_id, id }) => [author_id, id]))
  },

  /**
   * What an author wrote in a channel between two ids, oldest first, among so many messages of all
   * authors. @returns `last`: which of them was looked at last, if there may be more
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

  /**
   * The messages that were sent with these nonces; those deleted since come back without content.
   */
  async byNonces(
    keys: readonly { channel: Snowflake; author: Snowflake; nonce: string }[],
  ): Promise<Map<string, MessageState>> {
    const channels = keys.map(key => key.channel),
      authors = keys.map(key => key.author),
      nonces = keys.map(key => key.nonce)
    const rows = await sql<MessageState[]>`
      SELECT ${messageFields(sql)}
      FROM unnest(${channels}::bigint[], ${authors}::bigint[], ${nonces}::text[]) AS k (channel_id, author_id, nonce)
      JOIN messages m USING (channel_id, author_id, nonce) LEFT JOIN users u ON u.id = m.author_id`
    return new Map(rows.map(row => [nonceKey(row.channel_id, row.author_id, row.nonce!), row]))
  },
})
