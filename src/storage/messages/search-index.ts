import type { Snowflake } from "../../contract/core/fields.ts"
import type { SearchSource } from "../../domain/messages/search-text.ts"
import { isDataError, type Sql, type Statement, type Statements } from "../core/database.ts"
import type { SweptRow } from "../core/placement.ts"
import { numbers, texts } from "../core/write.ts"
import { doubtBetween, doubted, searchBlocksStorage } from "./search-blocks.ts"
import { pairs, stemReads, type MessagePlace } from "./search.ts"

/** A message as the index keeps it. */
export interface IndexedMessage extends MessagePlace {
  readonly home_id: Snowflake
  readonly edited_at: number
  readonly folded: string
  /** In the notation of a `tsvector`. */
  readonly words: string
  /** A block may have it. */
  readonly is_sealed: boolean
}

/** A message as it is read for the index. */
export interface ReadMessage extends SearchSource {
  readonly is_sealed: boolean
}

/** A row of the outbox whose messages the index does not have yet. */
export interface UnreadRow {
  readonly shard: number
  readonly number: number
  /** As `rowBody` makes it. */
  readonly body: string
}

/** Shards that one step takes, and rows of theirs. */
const claimed = { shards: 64, rows: 500 }

/** The shard of a channel is part of its id. */
const shardOf = (sql: Statements, channel: Statement): Statement => sql`((${channel} >> 12) & 1023)::smallint`

/** Nobody else reads or writes messages of these channels' shards for the index until the transaction is over. */
const lockShards = async (sql: Statements, channels: readonly Snowflake[]): Promise<void> => {
  await sql`
    SELECT FROM message_search_positions WHERE shard IN (SELECT ${shardOf(sql, sql`id`)} FROM unnest(${[...new Set(channels)]}::bigint[]) AS id)
    ORDER BY shard FOR UPDATE`
}

/**
 * Of rows of the outbox that are about to be deleted, those that the index has not read: their
 * messages go into its list. Who deletes them says which these are: to read it once more in the rows
 * takes as long as writing them. As a part of a WITH query.
 */
export function listUnread(sql: Statements, rows: readonly SweptRow[]): Statement {
  const [shards, ofRows, channels, messages]: [number[], number[], Snowflake[], Snowflake[]] = [[], [], [], []]
  for (const row of rows)
    for (const { channel_id, message_id } of row.messages) {
      shards.push(row.shard)
      ofRows.push(row.number)
      channels.push(channel_id)
      messages.push(message_id)
    }
  return sql`
    INSERT INTO message_search_backlog (channel_id, message_id)
    SELECT DISTINCT a.channel_id, a.message_id
    FROM unnest(${shards}::smallint[], ${ofRows}::bigint[], ${channels}::bigint[], ${messages}::bigint[]) AS a (shard, number, channel_id, message_id)
      JOIN message_search_positions p ON p.shard = a.shard AND p.number < a.number`
}

/**
 * What keeps the index, one transaction at a time. Messages of a shard are read and written by those
 * alone who hold its row of `message_search_positions`.
 */
export const searchIndexStorage = (sql: Statements) => ({
  /**
   * Takes shards that have news, but for those that somebody else holds. @returns rows of the
   * outbox in the order of each shard, of about so many bytes; `isAll`: there are no others
   */
  async claim(bytes: number): Promise<{ rows: UnreadRow[]; isAll: boolean }> {
    const rows = await sql<(UnreadRow & { shards: number })[]>`
      WITH claimed AS MATERIALIZED (
        SELECT p.shard, p.number FROM message_search_positions p
        WHERE p.number < (SELECT o.number FROM outbox o WHERE o.shard = p.shard ORDER BY o.number DESC LIMIT 1)
        ORDER BY random() LIMIT ${claimed.shards} FOR UPDATE SKIP LOCKED)
      SELECT shard, number, CASE WHEN before < ${bytes} THEN body END AS body, (SELECT count(*)::int FROM claimed) AS shards FROM (
        SELECT u.*, sum(octet_length(body)) OVER (ROWS UNBOUNDED PRECEDING) - octet_length(body) AS before
        FROM (SELECT o.* FROM claimed c, LATERAL (
          SELECT shard, number, body FROM outbox WHERE shard = c.shard AND number > c.number ORDER BY number) AS o LIMIT ${claimed.rows}) AS u) AS counted`
    const read = rows.filter(({ body }) => body !== null).map(({ shard, number, body }) => ({ shard, number, body }))
    const isAll = read.length === rows.length && rows.length < claimed.rows && (rows[0]?.shards ?? 0) < claimed.shards
    return { rows: read, isAll }
  },

  /** The messages in these rows can be found: those who claim the shards next go on behind them. */
  async advance(rows: readonly Pick<UnreadRow, "shard" | "number">[]): Promise<void> {
    const last = new Map<number, number>()
    for (const { shard, number } of rows) last.set(shard, Math.max(last.get(shard) ?? 0, number))
    await sql`
      UPDATE message_search_positions p SET number = t.number
      FROM unnest(${[...last.keys()]}::smallint[], ${[...last.values()]}::bigint[]) AS t (shard, number) WHERE p.shard = t.shard`
  },

  /** Takes messages from the list that have waited longest, but for those of shards that somebody else holds. */
  async takeListed(limit: number): Promise<MessagePlace[]> {
    return sql<MessagePlace[]>`
      WITH oldest AS MATERIALIZED (
        SELECT b.id FROM message_search_backlog b JOIN message_search_positions p ON p.shard = ${shardOf(sql, sql`b.channel_id`)}
        ORDER BY b.id LIMIT ${limit} FOR UPDATE OF p SKIP LOCKED)
      DELETE FROM message_search_backlog WHERE id IN (SELECT id FROM oldest) RETURNING channel_id, message_id`
  },

  async sources(keys: readonly MessagePlace[]): Promise<ReadMessage[]> {
    return sql<ReadMessage[]>`
      SELECT m.id, m.channel_id, m.server_id, m.author_id, m.content, m.edited_at, m.pinned_at, m.embeds, m.attachments,
        CASE WHEN m.poll IS NULL THEN NULL ELSE
          ARRAY[m.poll ->> 'question'] || ARRAY(SELECT o ->> 'text' FROM json_array_elements(m.poll -> 'options') AS o) END AS poll_texts,
        CASE WHEN m.server_id IS NULL THEN (SELECT array_remove(ARRAY[d.user_id, d.other_id], NULL) FROM direct_channels d WHERE d.id = m.channel_id) END AS participants,
        EXISTS (SELECT FROM message_search_blocks b WHERE b.channel_id = m.channel_id AND b.upto_id >= m.id) AS is_sealed
      FROM ${pairs(sql, keys)} AS k (channel_id, id) JOIN messages m USING (channel_id, id) WHERE NOT m.deleted`
  },

  /**
   * Nothing is compared with `messages` once more. Who has changed or deleted one of these messages since it was read has
   * written a row of the outbox, which has it read again (IDX1); what a deleted channel leaves goes after this step
   * (`purgeSearched`). What PostgreSQL refuses leaves the transaction as it was.
   */
  async put(rows: readonly IndexedMessage[]): Promise<void> {
    await sql`SAVEPOINT put`
    try {
      const isSealed = rows.some(({ is_sealed }) => is_sealed)
      const put = sql`
        INSERT INTO message_search AS s (channel_id, message_id, home_id, edited_at, folded, words)
        SELECT t.channel_id, t.message_id, t.home_id, t.edited_at, t.folded, t.words::tsvector
        FROM unnest(${numbers(rows, row => row.channel_id)}::bigint[], ${numbers(rows, row => row.message_id)}::bigint[],
          ${numbers(rows, row => row.home_id)}::bigint[], ${numbers(rows, row => row.edited_at)}::bigint[],
          ${texts(rows, row => row.folded)}::text[], ${texts(rows, row => row.words)}::text[])
          AS t (channel_id, message_id, home_id, edited_at, folded, words)
        ON CONFLICT (channel_id, message_id) DO UPDATE SET edited_at = excluded.edited_at, folded = excluded.folded, words = excluded.words
        WHERE s.edited_at <= excluded.edited_at AND (s.folded <> excluded.folded OR s.words <> excluded.words)`
      // BLK1
      if (isSealed) await sql`WITH put AS (${put} RETURNING s.channel_id, s.message_id) ${doubted(sql, sql`put k`)}`
      else await put
      await sql`RELEASE put`
    } catch (error) {
      if (isDataError(error)) await sql`ROLLBACK TO put`
      throw error
    }
  },

  /**
   * Sorts new rows into the index of words. PostgreSQL first keeps them in a list beside the index,
   * and every search goes through this list entry by entry, once for each stretch of time.
   */
  async sortIn(): Promise<void> {
    await sql`SELECT gin_clean_pending_list('message_search_words')`
  },

  async remove(keys: readonly MessagePlace[]): Promise<void> {
    await sql`
      DELETE FROM message_search s USING ${pairs(sql, keys)} AS t (channel_id, message_id)
      WHERE s.channel_id = t.channel_id AND s.message_id = t.message_id
        AND NOT EXISTS (SELECT FROM messages m WHERE m.channel_id = t.channel_id AND m.id = t.message_id AND NOT m.deleted
          AND coalesce(m.edited_at, 0) <= s.edited_at)`
    // BLK1
    await sql`${doubted(sql, sql`${pairs(sql, keys)} AS k (channel_id, message_id)`)}`
  },

  ...searchBlocksStorage(sql, channels => lockShards(sql, channels)),
  ...stemReads(sql),

  /** Bytes of the index. */
  async size(): Promise<number> {
    const [row] = await sql<
      { bytes: number }[]
    >`SELECT pg_total_relation_size('message_search') + pg_total_relation_size('message_search_blocks') AS bytes`
    return row!.bytes
  },

  /** Begins a rebuild, or continues one. @returns how many messages it has done */
  async beginRebuild(): Promise<number> {
    const [row] = await sql<{ done: number }[]>`
      INSERT INTO message_search_rebuild AS r DEFAULT VALUES ON CONFLICT (one) DO UPDATE SET one = r.one RETURNING done`
    return row!.done
  },

  /** The next messages of a rebuild, and its position. Nobody else reads or writes messages of these shards meanwhile. */
  async rebuildSlice(limit: number): Promise<{ from: MessagePlace; keys: MessagePlace[] }> {
    const [from] = await sql<
      MessagePlace[]
    >`SELECT channel_id::text, message_id::text FROM message_search_rebuild FOR UPDATE`
    if (!from) return { from: { channel_id: "0", message_id: "0" }, keys: [] }
    const keys = await sql<MessagePlace[]>`
      SELECT channel_id, id AS message_id FROM messages WHERE (channel_id, id) > (${from.channel_id}::bigint, ${from.message_id}::bigint)
      ORDER BY channel_id, id LIMIT ${limit}`
    await lockShards(
      sql,
      keys.map(({ channel_id }) => channel_id),
    )
    return { from, keys }
  },

  /**
   * Removes what the index has between two messages and no message accounts for. `to` null: to the
   * end, and the rebuild is over.
   */
  async endSlice(from: MessagePlace, to: MessagePlace | null, done: number): Promise<void> {
    const largest = "9223372036854775807"
    const last = to ?? { channel_id: largest, message_id: largest }
    await sql`
      WITH orphans AS (
        DELETE FROM message_search s
        WHERE (s.channel_id, s.message_id) > (${from.channel_id}::bigint, ${from.message_id}::bigint)
          AND (s.channel_id, s.message_id) <= (${last.channel_id}::bigint, ${last.message_id}::bigint)
          AND NOT EXISTS (SELECT FROM messages m WHERE m.channel_id = s.channel_id AND m.id = s.message_id AND NOT m.deleted)),
      over AS (DELETE FROM message_search_rebuild WHERE ${to === null})
      UPDATE message_search_rebuild SET channel_id = ${last.channel_id}, message_id = ${last.message_id}, done = done + ${done} WHERE ${to !== null}`
    await doubtBetween(sql, from, last)
  },
})

/** How far behind the index is. */
export const searchLagStorage = (sql: Sql) => ({
  /** Seconds that a message has waited in the list; 0: none does. */
  async waitingFor(): Promise<number> {
    const [row] = await sql<{ seconds: number }[]>`
      SELECT extract(epoch FROM now() - listed_at)::float8 AS seconds FROM message_search_backlog ORDER BY id LIMIT 1`
    return row?.seconds ?? 0
  },
})
