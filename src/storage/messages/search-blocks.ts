import type { Snowflake } from "../../contract/core/fields.ts"
import type { Statement, Statements } from "../core/database.ts"
import { column } from "../core/write.ts"
import type { MessagePlace } from "./search.ts"

/** Names a block. */
export interface BlockEnd {
  readonly channel_id: Snowflake
  readonly upto_id: Snowflake
}

/** Texts that a block is made of. */
export interface BlockTexts {
  readonly channel_id: Snowflake
  /** The last of their messages. */
  readonly last_id: Snowflake
  readonly looks: number
  readonly texts: string
}

/** Some of the texts of a block; `total`: so many were read of it, which are all or not. */
export interface BlockPart extends BlockTexts, BlockEnd {
  readonly total: number
  readonly is_all: boolean
}

export interface Block extends BlockEnd {
  readonly looks: number
  readonly signature: Uint8Array
}

/** How long messages of before wait for programs of before, which may still read the old index. */
const oldProgramsMs = 600_000
/** Bytes of text that count as one message more. */
const bytesPerLook = 256
/** What is read of one block at the most, if it has grown. */
const blockBytes = 2 * 1024 * 1024

/** After this message of the channel `c.id` all are in no block. */
const endOfBlocks = (sql: Statements): Statement =>
  sql`coalesce((SELECT upto_id FROM message_search_blocks WHERE channel_id = c.id ORDER BY upto_id DESC LIMIT 1), 0)`

const aggregated = (sql: Statements): Statement =>
  sql`sum(1 + octet_length(folded) / ${bytesPerLook}::int)::int AS looks, string_agg(folded, E'\n') AS texts`

/**
 * The blocks of these messages are looked through from now on. Part of a statement.
 * @param keys a table of channel_id and message_id
 */
export const doubted = (sql: Statements, keys: Statement): Statement => sql`
  UPDATE message_search_blocks b SET signature = NULL, looks = b.looks + d.count
  FROM (
    SELECT channel_id, upto_id, count(*)::int AS count FROM (
      SELECT k.channel_id, (
        SELECT upto_id FROM message_search_blocks n WHERE n.channel_id = k.channel_id AND n.upto_id >= k.message_id ORDER BY upto_id LIMIT 1) AS upto_id
      FROM ${keys} OFFSET 0) AS places
    WHERE upto_id IS NOT NULL GROUP BY channel_id, upto_id) AS d
  WHERE b.channel_id = d.channel_id AND b.upto_id = d.upto_id`

/** The blocks between two messages of a rebuild are to be made anew. */
export async function doubtBetween(sql: Statements, from: MessagePlace, to: MessagePlace): Promise<void> {
  await sql`
    UPDATE message_search_blocks SET signature = NULL
    WHERE (channel_id, upto_id) > (${from.channel_id}::bigint, ${from.message_id}::bigint)
      AND (channel_id, upto_id) <= (${to.channel_id}::bigint, coalesce((
        SELECT upto_id FROM message_search_blocks WHERE channel_id = ${to.channel_id} AND upto_id >= ${to.message_id} ORDER BY upto_id LIMIT 1), ${to.message_id}))`
}

/** Who asks holds the shards of the channels, see `searchIndexStorage`. */
export const searchBlocksStorage = (
  sql: Statements,
  lockShards: (channels: readonly Snowflake[]) => Promise<void>,
) => ({
  /** Blocks that are to be made anew, but for those of shards that somebody else holds. */
  async doubtful(limit: number): Promise<BlockEnd[]> {
    return sql<BlockEnd[]>`
      SELECT b.channel_id, b.upto_id FROM message_search_blocks b JOIN message_search_positions p ON p.shard = ((b.channel_id >> 12) & 1023)::smallint
      WHERE b.signature IS NULL ORDER BY b.channel_id, b.upto_id LIMIT ${limit} FOR UPDATE OF p SKIP LOCKED`
  },

  /** How many messages of channels are in no block, if they are so many; counted up to twice as many. */
  async filled(channels: readonly Snowflake[], messages: number): Promise<{ channel_id: Snowflake; count: number }[]> {
    return sql<{ channel_id: Snowflake; count: number }[]>`
      SELECT c.id AS channel_id, count FROM unnest(${[...channels]}::bigint[]) AS c (id), LATERAL (
        SELECT count(*)::int AS count FROM (
          SELECT FROM message_search WHERE channel_id = c.id AND message_id > ${endOfBlocks(sql)} ORDER BY message_id LIMIT ${2 * messages}) AS newest) AS counted
      WHERE count >= ${messages}`
  },

  /** The first so many texts of channels that are in no block. */
  async firstTexts(channels: readonly Snowflake[], messages: number): Promise<BlockTexts[]> {
    return sql<BlockTexts[]>`
      SELECT c.id AS channel_id, t.* FROM unnest(${[...channels]}::bigint[]) AS c (id), LATERAL (
        SELECT max(message_id) AS last_id, ${aggregated(sql)} FROM (
          SELECT message_id, folded FROM message_search WHERE channel_id = c.id AND message_id > ${endOfBlocks(sql)} ORDER BY message_id LIMIT ${messages}) AS newest) AS t`
  },

  /**
   * The texts of blocks, in equal parts of at most so many messages.
   * @param most messages that are read of one
   */
  async textsOf(blocks: readonly BlockEnd[], messages: number, most: number): Promise<BlockPart[]> {
    return sql<BlockPart[]>`
      SELECT b.channel_id, b.upto_id, p.* FROM unnest(${column(blocks, "channel_id")}::bigint[], ${column(blocks, "upto_id")}::bigint[]) AS b (channel_id, upto_id), LATERAL (
        SELECT max(message_id) AS last_id, min(total)::int AS total, bool_and(is_all) AS is_all, ${aggregated(sql)} FROM (
          SELECT *, (place - 1) * ((total + ${messages}::int - 1) / ${messages}::int) / total AS part FROM (
            SELECT *, count(*) OVER () AS total, count(*) OVER () = first_of AND first_of < ${most} AS is_all FROM (
              SELECT message_id, folded, row_number() OVER so_far AS place, sum(octet_length(folded)) OVER so_far AS bytes, count(*) OVER () AS first_of FROM (
                SELECT message_id, folded FROM message_search
                WHERE channel_id = b.channel_id AND message_id <= b.upto_id AND message_id > coalesce((
                  SELECT upto_id FROM message_search_blocks p WHERE p.channel_id = b.channel_id AND p.upto_id < b.upto_id ORDER BY upto_id DESC LIMIT 1), 0)
                ORDER BY message_id LIMIT ${most}) AS first
              WINDOW so_far AS (ORDER BY message_id ROWS UNBOUNDED PRECEDING)) AS counted
            WHERE bytes <= ${blockBytes} OR place <= ${messages}) AS kept) AS divided
        GROUP BY part) AS p`
  },

  async putBlocks(blocks: readonly Block[]): Promise<void> {
    const signatures = blocks.map(({ signature }) =>
      Buffer.from(signature.buffer, 0, signature.length).toString("base64"),
    )
    await sql`
      INSERT INTO message_search_blocks AS b (channel_id, upto_id, looks, signature)
      SELECT channel_id, upto_id, looks, decode(signature, 'base64')
      FROM unnest(${column(blocks, "channel_id")}::bigint[], ${column(blocks, "upto_id")}::bigint[], ${column(blocks, "looks")}::int[], ${signatures}::text[])
        AS t (channel_id, upto_id, looks, signature)
      ON CONFLICT (channel_id, upto_id) DO UPDATE SET looks = excluded.looks, signature = excluded.signature`
  },

  /** What is left in blocks falls to the next later ones, which are to be made anew; of the last, to what is in none. */
  async endBlocks(blocks: readonly BlockEnd[]): Promise<void> {
    const ended = sql`unnest(${column(blocks, "channel_id")}::bigint[], ${column(blocks, "upto_id")}::bigint[]) AS k (channel_id, message_id)`
    await sql`DELETE FROM message_search_blocks b USING ${ended} WHERE b.channel_id = k.channel_id AND b.upto_id = k.message_id`
    await sql`${doubted(sql, ended)}`
  },

  /**
   * The next channels that have messages of before. @returns `channels`: null: there are none, and nothing is left to be
   * done; none: all are in blocks, and the old index has only to go. `isOver`: programs of before may not be waited for any longer.
   */
  async unsealed(limit: number): Promise<{ channels: Snowflake[] | null; isOver: boolean }> {
    const [begun] = await sql<{ channel_id: Snowflake; over: boolean }[]>`
      SELECT channel_id::text, now() >= since + ${oldProgramsMs} * interval '1 millisecond' AS over FROM message_search_blocks_begun FOR UPDATE`
    if (!begun) return { channels: null, isOver: true }
    const rows = await sql<{ id: Snowflake }[]>`
      WITH RECURSIVE named (id, place) AS (
        (SELECT channel_id, 1 FROM message_search WHERE channel_id > ${begun.channel_id} ORDER BY channel_id LIMIT 1)
        UNION ALL
        SELECT (SELECT channel_id FROM message_search WHERE channel_id > named.id ORDER BY channel_id LIMIT 1), place + 1
        FROM named WHERE place < ${limit} AND named.id IS NOT NULL)
      SELECT id FROM named WHERE id IS NOT NULL ORDER BY place`
    const channels = rows.map(({ id }) => id)
    await lockShards(channels)
    return { channels, isOver: begun.over }
  },

  /** Channels up to this one are in blocks. */
  async sealedUpTo(channel: Snowflake): Promise<void> {
    await sql`UPDATE message_search_blocks_begun SET channel_id = ${channel}`
  },

  async endSealing(): Promise<void> {
    await sql`DELETE FROM message_search_blocks_begun`
  },
})

/** The index of three characters each, which blocks take the place of. Not within a transaction. */
export const endOldIndex = (sql: Statements): Statement => sql`DROP INDEX CONCURRENTLY IF EXISTS message_search_folded`

/**
 * Settings of those who keep the index. They read few rows each time, in the order of an index. The
 * trigger of migration 0020 hears that who writes rows takes the signatures of their blocks, too.
 */
export const keepingSettings = {
  enable_bitmapscan: "off",
  enable_sort: "off",
  "starling.search_blocks": "kept",
} as const
