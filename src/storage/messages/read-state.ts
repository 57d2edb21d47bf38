import type { Snowflake } from "../../contract/core/fields.ts"
import type { AckRange, Reader, ReadState } from "../../domain/messages/read-state.ts"
import { readerOf } from "../../domain/messages/read-state.ts"
import { epochMs } from "../../domain/core/snowflake.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql, Statement } from "../core/database.ts"
import { searchStorage, type MemberOutline } from "./search.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    read_states: {
      userColumns: ["user_id"],
      key: { channel_id: "bigint", user_id: "bigint" },
      given: ["channel_id", "user_id", "since_id", "message_id", "visible_id", "gaps"],
      atPurge: "erased",
    },
  },
  others: {
    message_tallies: {
      why: "How many messages stretches of a channel hold, counted from these, which are given",
      columns: {
        author_id: "Whose are counted: the messages say so themselves, and no index leads to one author's alone",
      },
    },
  },
}

/** The position never goes back, whatever comes late. */
export const putReadState = defineWrite<ReadState & { channel_id: Snowflake; user_id: Snowflake }>(
  "putReadState",
  (sql, rows) => {
    const last = lastOf(rows, row => `${row.channel_id}:${row.user_id}`)
    return sql`
      INSERT INTO read_states (channel_id, user_id, since_id, message_id, visible_id, gaps)
      SELECT channel_id, user_id, since_id, message_id, visible_id, gaps::bigint[]
      FROM unnest(${column(last, "channel_id")}::bigint[], ${column(last, "user_id")}::bigint[], ${column(last, "since_id")}::bigint[],
        ${column(last, "message_id")}::bigint[], ${column(last, "visible_id")}::bigint[], ${last.map(({ gaps }) => `{${gaps.join(",")}}`)}::text[])
        AS t (channel_id, user_id, since_id, message_id, visible_id, gaps)
      ON CONFLICT (channel_id, user_id) DO UPDATE SET message_id = excluded.message_id, visible_id = excluded.visible_id, gaps = excluded.gaps
      WHERE excluded.message_id > read_states.message_id`
  },
)

/** Messages in a stretch, which is counted as a whole. Tests may make it smaller. */
export const stretch = 512
/**
 * How many stretches one statement counts. Channels whose messages are older than the counts need
 * several statements.
 */
const stretchesPerStatement = 16

/**
 * Counts the messages of stretches that are complete. Its home alone writes to a channel, and in
 * the order of ids: nothing can come into a stretch any more.
 */
export const tallyMessages = defineWrite<{ channel_id: Snowflake; stretch?: number }>("tallyMessages", (sql, rows) => {
  const last = lastOf(rows, row => row.channel_id).map(row => ({ ...row, stretch: row.stretch ?? stretch }))
  return sql`
    INSERT INTO message_tallies (channel_id, author_id, upto_id, count)
    SELECT channel_id, coalesce(author_id, 0), upto_id, count(*) FILTER (WHERE NOT deleted)
    FROM (
      SELECT t.channel_id, t.stretch, m.author_id, m.deleted, max(m.id) OVER part AS upto_id, count(*) OVER part AS size
      FROM unnest(${column(last, "channel_id")}::bigint[], ${column(last, "stretch")}::int[]) AS t (channel_id, stretch),
        LATERAL (
          SELECT id, author_id, deleted, (row_number() OVER (ORDER BY id) - 1) / t.stretch AS part
          FROM (
            SELECT id, author_id, deleted FROM messages
            WHERE channel_id = t.channel_id AND id > coalesce((
              SELECT upto_id FROM message_tallies WHERE channel_id = t.channel_id AND author_id = 0 ORDER BY upto_id DESC LIMIT 1), 0)
            ORDER BY id LIMIT t.stretch * ${stretchesPerStatement}) AS uncounted) AS m
      WINDOW part AS (PARTITION BY t.channel_id, m.part)) AS parts
    WHERE size = stretch
    GROUP BY GROUPING SETS ((channel_id, upto_id, author_id), (channel_id, upto_id))
    HAVING grouping(author_id) = 1 OR count(*) FILTER (WHERE NOT deleted) > 0
    ON CONFLICT DO NOTHING`
})

/**
 * How many messages of others than a user there are in a channel after an id, as an expression:
 * what is left of the stretch in which the id lies, the counts of those after it, and the messages
 * after the last of them. Both ends of a range are said, though one is no end: of a range with one
 * end that it does not know PostgreSQL expects a third of the table, and reads all of it.
 */
const othersAfter = (sql: Sql, channel: Statement, user: Snowflake, after: Statement) => sql`(
  SELECT (SELECT count(*) FROM messages m
      WHERE m.channel_id = ${channel} AND m.id > ${after} AND m.id <= coalesce(first.upto_id, 9223372036854775807)
        AND m.author_id <> ${user} AND NOT m.deleted)
    + CASE WHEN first.upto_id IS NULL THEN 0 ELSE
      coalesce((SELECT sum(t.count) FROM message_tallies t WHERE t.channel_id = ${channel} AND t.author_id = 0 AND t.upto_id > first.upto_id), 0)
      - coalesce((SELECT sum(t.count) FROM message_tallies t WHERE t.channel_id = ${channel} AND t.author_id = ${user} AND t.upto_id > first.upto_id), 0)
      + (SELECT count(*) FROM messages m
          WHERE m.channel_id = ${channel} AND m.author_id <> ${user} AND NOT m.deleted AND m.id <= 9223372036854775807 AND m.id > (
            SELECT t.upto_id FROM message_tallies t WHERE t.channel_id = ${channel} AND t.author_id = 0 ORDER BY t.upto_id DESC LIMIT 1)) END
  FROM (SELECT (
    SELECT t.upto_id FROM message_tallies t WHERE t.channel_id = ${channel} AND t.author_id = 0 AND t.upto_id >= ${after}
    ORDER BY t.upto_id LIMIT 1) AS upto_id) AS first)::int`

/** How many notifications are about messages of a channel after an id that are still there. */
const mentionsAfter = (sql: Sql, channel: Statement, user: Snowflake, after: Statement) => sql`(
  SELECT count(*)::int FROM notifications n
  WHERE n.user_id = ${user} AND n.channel_id = ${channel} AND n.message_id > ${after}
    AND EXISTS (SELECT FROM messages x WHERE x.channel_id = ${channel} AND x.id = n.message_id AND NOT x.deleted))`

/**
 * Where a member's reading begins if nobody has recorded it: the first id of the second in which
 * they joined.
 */
const beginning = (sql: Sql) => sql`coalesce(m.since_id, greatest(m.joined_at * 1000 - ${epochMs}, 0) << 22)`

export interface Unread {
  channel_id: Snowflake
  unread_count: number
  mention_count: number
}

interface UnreadHere extends Unread {
  /** What is unread begins after it. */
  last_read_id: Snowflake | null
}

export const readStateStorage = (sql: Sql) => ({
  async states(channel: Snowflake, users: readonly Snowflake[]): Promise<Map<Snowflake, ReadState>> {
    const rows = await sql<(ReadState & { user_id: Snowflake })[]>`
      SELECT user_id, since_id::text, message_id::text, visible_id::text, gaps::text[] FROM read_states
      WHERE channel_id = ${channel} AND user_id = ANY(${[...users]}::bigint[])`
    return new Map(rows.map(({ user_id, ...state }) => [user_id, state]))
  },

  /** The users whom others see to have read something of a channel, in the order in which `readersOf` has them. */
  async readers(channel: Snowflake): Promise<Reader[]> {
    const rows = await sql<(Omit<ReadState, "message_id"> & { user_id: Snowflake })[]>`
      SELECT user_id, since_id, visible_id, gaps FROM read_states WHERE channel_id = ${channel} AND visible_id > since_id
      ORDER BY visible_id, user_id`
    return rows.flatMap(row => readerOf(row.user_id, row) ?? [])
  },

  /** The newest message of a channel, or the empty row that is left of it. */
  async newest(channel: Snowflake): Promise<Snowflake | undefined> {
    const [row] = await sql<{ id: Snowflake }[]>`
      SELECT id FROM messages WHERE channel_id = ${channel} ORDER BY id DESC LIMIT 1`
    return row?.id
  },

  /**
   * Which of these are channels of a user's servers, or DMs and notes of theirs; the caller checks
   * whether they may read them.
   */
  async reachable(user: Snowflake, channels: readonly Snowflake[]): Promise<Set<Snowflake>> {
    const ids = [...channels]
    const rows = await sql<{ id: Snowflake }[]>`
      SELECT c.id FROM channels c JOIN members m ON m.server_id = c.server_id AND m.user_id = ${user} WHERE c.id = ANY(${ids}::bigint[])
      UNION ALL SELECT id FROM direct_channels WHERE id = ANY(${ids}::bigint[]) AND (user_id = ${user} OR other_id = ${user})`
    return new Set(rows.map(({ id }) => id))
  },

  /**
   * Whether a channel has many more messages after its last complete stretch than it has while all
   * are counted.
   */
  async hasUncounted(channel: Snowflake): Promise<boolean> {
    const [row] = await sql<{ id: Snowflake }[]>`
      SELECT id FROM messages WHERE channel_id = ${channel} AND id <= 9223372036854775807 AND id > coalesce((
        SELECT upto_id FROM message_tallies WHERE channel_id = ${channel} AND author_id = 0 ORDER BY upto_id DESC LIMIT 1), 0)
      ORDER BY id OFFSET ${8 * stretch} LIMIT 1`
    return row !== undefined
  },

  /** What an acknowledgement is about: whether there is that message, and what it marks. */
  async range(
    channel: Snowflake,
    user: Snowflake,
    { after, upto }: { after: Snowflake; upto: Snowflake },
  ): Promise<AckRange> {
    const [row] = await sql<AckRange[]>`
      SELECT EXISTS (SELECT FROM messages WHERE channel_id = ${channel} AND id = ${upto} AND NOT deleted) AS "isThere",
        EXISTS (SELECT FROM notifications WHERE user_id = ${user} AND channel_id = ${channel} AND message_id <= ${upto} AND NOT read)
        OR EXISTS (SELECT FROM message_mentions WHERE channel_id = ${channel} AND message_id <= ${upto}) AS "hasMentions",
        ${othersAfter(sql, sql`${channel}::bigint`, user, sql`${after}::bigint`)}
        - ${othersAfter(sql, sql`${channel}::bigint`, user, sql`${upto}::bigint`)} AS marked`
    return row!
  },

  /**
   * What a user has not read of a channel: PostgreSQL is told which, so that it thinks of one
   * partition and not of all.
   */
  async unreadIn(user: Snowflake, channel: Snowflake, server: Snowflake): Promise<UnreadHere> {
    const [place] = await sql<{ after: Snowflake }[]>`
      SELECT greatest((SELECT message_id FROM read_states WHERE channel_id = ${channel} AND user_id = ${user}),
        (SELECT ${beginning(sql)} FROM members m WHERE server_id = ${server} AND user_id = ${user}), 0)::text AS after`
    const [unread] = await sql<Unread[]>`
      SELECT ${channel}::bigint AS channel_id,
        ${othersAfter(sql, sql`${channel}::bigint`, user, sql`${place!.after}::bigint`)} AS unread_count,
        ${mentionsAfter(sql, sql`${channel}::bigint`, user, sql`${place!.after}::bigint`)} AS mention_count`
    return { ...unread!, last_read_id: place!.after === "0" ? null : place!.after }
  },

  /** The same for several channels; in a server only messages that came after the user joined. */
  async unread(
    user: Snowflake,
    channels: readonly { readonly id: Snowflake; readonly server_id: Snowflake | null }[],
  ): Promise<Unread[]> {
    return sql<Unread[]>`
      SELECT c.id AS channel_id, ${othersAfter(sql, sql`c.id`, user, sql`c.after`)} AS unread_count,
        ${mentionsAfter(sql, sql`c.id`, user, sql`c.after`)} AS mention_count
      FROM (
        SELECT t.id, greatest(coalesce(r.message_id, 0), coalesce(${beginning(sql)}, 0)) AS after
        FROM unnest(${channels.map(({ id }) => id)}::bigint[], ${channels.map(({ server_id }) => server_id)}::bigint[]) AS t (id, server_id)
        LEFT JOIN read_states r ON r.channel_id = t.id AND r.user_id = ${user}
        LEFT JOIN members m ON m.server_id = t.server_id AND m.user_id = ${user}) AS c`
  },

  /**
   * Channels of a user's servers, and their DMs, with messages after what they have read; the
   * caller checks whether they may read them.
   */
  async channelsAhead(user: Snowflake): Promise<{ id: Snowflake; server_id: Snowflake | null }[]> {
    return sql<{ id: Snowflake; server_id: Snowflake | null }[]>`
      SELECT c.id, c.server_id
      FROM (
        SELECT c.id, c.server_id, ${beginning(sql)} AS since_id
        FROM members m JOIN channels c ON c.server_id = m.server_id WHERE m.user_id = ${user}
        UNION ALL SELECT id, NULL, 0 FROM direct_channels WHERE user_id = ${user} AND other_id IS NOT NULL
        UNION ALL SELECT id, NULL, 0 FROM direct_channels WHERE other_id = ${user}) AS c
      LEFT JOIN read_states r ON r.channel_id = c.id AND r.user_id = ${user}
      WHERE (SELECT x.id FROM messages x WHERE x.channel_id = c.id ORDER BY x.id DESC LIMIT 1) > greatest(coalesce(r.message_id, 0), c.since_id)`
  },

  /** What decides which channels of their servers a user may read. */
  outlines: (user: Snowflake): Promise<MemberOutline[]> => searchStorage(sql).outlinesFor(user, null),

  /**
   * Deletes some of what is left of channels that are gone. @returns how many rows at most of one
   * table
   */
  async purge(channels: readonly Snowflake[], limit: number): Promise<number> {
    const ids = [...channels]
    const [row] = await sql<{ states: number; tallies: number }[]>`
      WITH states AS (
        DELETE FROM read_states WHERE ctid = ANY(ARRAY(
          SELECT ctid FROM read_states WHERE channel_id = ANY(${ids}::bigint[]) LIMIT ${limit})) RETURNING 1),
      tallies AS (
        DELETE FROM message_tallies WHERE ctid = ANY(ARRAY(
          SELECT ctid FROM message_tallies WHERE channel_id = ANY(${ids}::bigint[]) LIMIT ${limit})) RETURNING 1)
      SELECT (SELECT count(*) FROM states)::int AS states, (SELECT count(*) FROM tallies)::int AS tallies`
    return Math.max(row!.states, row!.tallies)
  },
})
