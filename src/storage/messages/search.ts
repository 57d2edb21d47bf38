import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { Piece } from "../../domain/messages/search-stretches.ts"
import type { Override } from "../../domain/core/overrides.ts"
import { grantsOf, type AccessRules } from "../../domain/core/permissions.ts"
import type { Permission } from "../../contract/core/permissions.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql, Statement, Statements } from "../core/database.ts"
import { messagesWithin, type MessagesWithin } from "./message-rows.ts"
import { messageFields } from "./messages.ts"
import type { UserRow } from "../accounts/users.ts"
import { column } from "../core/write.ts"
import { append } from "../../std/multi-map.ts"

export const personalData: PersonalData = {
  others: {
    message_search: { why: "What messages are found by, made of them at any time; it goes with them" },
    message_search_positions: { why: "How far message_search follows the outbox" },
    message_search_backlog: { why: "Which messages are to be read for searches; gone within minutes" },
    message_search_blocks: {
      why: "Which groups of three and of four characters a hundred messages have among them, as bits",
    },
    message_search_blocks_begun: { why: "How far messages of before are in message_search_blocks" },
    message_search_rebuild: { why: "How far the making of message_search has come" },
  },
}

export interface MessagePlace {
  readonly channel_id: Snowflake
  readonly message_id: Snowflake
}

/**
 * A server with what decides which channels one member may read: the member's roles, `@everyone`,
 * and the overrides of these and of the member in its channels.
 */
export interface MemberOutline extends AccessRules {
  readonly member_roles: readonly Snowflake[]
  readonly overrides: ReadonlyMap<Snowflake, readonly Override[]>
}

/** Where to search: all channels of some homes except for some, and some single channels. */
export interface Places {
  readonly homes: readonly Snowflake[]
  readonly hidden: readonly Snowflake[]
  readonly channels: readonly Snowflake[]
}

/** The same as facts of a message: where it is, or what it has. */
export interface Placed extends Pick<Places, "homes" | "channels"> {
  readonly fact: string | null
}

/** Ids from `from` on and below `below`. */
export interface IdSpan {
  readonly from: Snowflake
  readonly below: Snowflake
}

interface Wanted extends IdSpan {
  /** Null: pinned or not. */
  readonly pinned: boolean | null
  readonly limit: number
}

/** What was found, the newest first, and how far back was searched. */
export interface Found {
  readonly found: MessagePlace[]
  /** Messages with this id and later ones were looked at; null: all were. */
  readonly edge: Snowflake | null
}

export const pairs = (sql: Statements, keys: readonly MessagePlace[]): Statement =>
  sql`unnest(${column(keys, "channel_id")}::bigint[], ${column(keys, "message_id")}::bigint[])`

/** The message was not edited since it was indexed: its present text may not match. */
const unedited = (sql: Sql): Statement => sql`AND coalesce(m.edited_at, 0) <= c.edited_at`

/**
 * The message and its channel still exist: the index is updated after both. It is checked for each
 * message that matches.
 */
const stands = (sql: Sql, pinned: boolean | null, and = sql``): Statement => sql`
  (SELECT NOT m.deleted ${and} ${pinned === null ? sql`` : sql`AND (m.pinned_at IS NOT NULL) = ${pinned}`} FROM messages m WHERE m.channel_id = c.channel_id AND m.id = c.message_id)
  AND (c.home_id = c.channel_id OR EXISTS (SELECT FROM channels WHERE id = c.channel_id))`

/**
 * Each part is a condition of its own, so that the index skips what lacks another part. With all
 * parts in one condition it would go through everything that has the rarest word.
 */
const each = (sql: Sql, words: readonly string[]): Statement =>
  words.reduce((before, part) => sql`${before} AND words @@ ${part}::text::tsquery`, sql`true`)

/** Messages of a stretch of time; null: of all times, by the other words alone. */
export interface BoundedPiece extends Omit<Piece, "words"> {
  readonly words: Piece["words"] | null
  /** No more of what matches is read. */
  readonly most: number
}

/** How many conversations of a user are checked for their newest message. */
const latest = 100

const largest = "9223372036854775807"

/** How many of the newest messages of a place tell how fast it fills. */
const sampled = 8

/** What languages make of words. */
export const stemReads = (sql: Statements) => ({
  /** The stems of words in each language. A stop word of a language has no stem in it. */
  async stems(words: readonly string[], languages: readonly string[]): Promise<Map<string, string[]>> {
    const rows = await sql<{ word: string; stems: string[] }[]>`
      SELECT w AS word, array_agg(DISTINCT stem) AS stems
      FROM unnest(${[...words]}::text[]) AS w, unnest(${[...languages]}::text[]) AS l, LATERAL unnest(ts_lexize((l || '_stem')::regdictionary, w)) AS stem
      GROUP BY w`
    return new Map(rows.map(({ word, stems }) => [word, stems]))
  },
})

/** Queries that say where a user may search, and which users and channels a query names. */
const scopeReads = (sql: Sql) => ({
  /** The servers of a member, or one of them. */
  async outlinesFor(user: Snowflake, server: Snowflake | null): Promise<MemberOutline[]> {
    const rows = await sql<
      {
        id: Snowflake
        owner_id: Snowflake
        member_roles: Snowflake[]
        roles: { id: Snowflake; permissions: Permission[] }[]
        overrides: (Override & { channel_id: Snowflake })[]
      }[]
    >`
      SELECT s.id, s.owner_id, m.roles AS member_roles,
        (SELECT coalesce(json_agg(json_build_object('id', r.id::text, 'permissions', r.permissions)), '[]')
          FROM roles r WHERE r.server_id = s.id AND (r.id = s.id OR r.id = ANY(m.roles))) AS roles,
        (SELECT coalesce(json_agg(json_build_object('channel_id', o.channel_id::text, 'target_id', o.target_id::text, 'type', o.type,
            'allow', o.allow, 'deny', o.deny)), '[]')
          FROM channel_overrides o WHERE o.server_id = s.id AND (o.target_id IN (s.id, m.user_id) OR o.target_id = ANY(m.roles))) AS overrides
      FROM members m JOIN servers s ON s.id = m.server_id
      WHERE m.user_id = ${user} AND (${server}::bigint IS NULL OR m.server_id = ${server})`
    return rows.map(({ roles, overrides, ...rest }) => {
      const byChannel = new Map<Snowflake, Override[]>()
      for (const { channel_id, ...override } of overrides) append(byChannel, channel_id, override)
      return {
        ...rest,
        roles: grantsOf(roles),
        overrides: byChannel,
      }
    })
  },

  /** DMs and notes of a user, the latest first. */
  async directsOf(user: Snowflake, limit: number): Promise<Snowflake[]> {
    const rows = await sql<{ id: Snowflake }[]>`
      SELECT id FROM direct_channels WHERE user_id = ${user} OR other_id = ${user} ORDER BY id DESC LIMIT ${limit}`
    return rows.map(({ id }) => id)
  },

  /** Which of these conversations outside servers are a user's. */
  async participates(user: Snowflake, channels: readonly Snowflake[]): Promise<Set<Snowflake>> {
    const rows = await sql<{ id: Snowflake }[]>`
      SELECT id FROM direct_channels WHERE id = ANY(${[...channels]}::bigint[]) AND (user_id = ${user} OR other_id = ${user})`
    return new Set(rows.map(({ id }) => id))
  },

  /** The home of a channel: its server, or itself. */
  async homesOf(channels: readonly Snowflake[]): Promise<Map<Snowflake, Snowflake>> {
    const rows = await sql<{ id: Snowflake; home_id: Snowflake }[]>`
      SELECT id, server_id AS home_id FROM channels WHERE id = ANY(${[...channels]}::bigint[])
      UNION ALL SELECT id, id FROM direct_channels WHERE id = ANY(${[...channels]}::bigint[])`
    return new Map(rows.map(({ id, home_id }) => [id, home_id]))
  },

  async channelsNamed(server: Snowflake, names: readonly string[]): Promise<Snowflake[]> {
    const rows = await sql<{ id: Snowflake }[]>`
      SELECT id FROM channels WHERE server_id = ${server} AND lower(name) = ANY(SELECT lower(n) FROM unnest(${[...names]}::text[]) AS n)`
    return rows.map(({ id }) => id)
  },

  async usersNamed(names: readonly string[]): Promise<Map<string, Snowflake>> {
    const rows = await sql<{ name: string; id: Snowflake }[]>`
      SELECT n AS name, u.id FROM unnest(${[...names]}::text[]) AS n JOIN users u ON lower(u.username) = lower(n)`
    return new Map(rows.map(({ name, id }) => [name, id]))
  },

  ...stemReads(sql),
})

/** Searches by places and dates. */
const placeReads = (sql: Sql) => ({
  /**
   * The newest messages of some places, back to the id down to which all places are complete. That
   * id follows from how fast the places fill, which the last few messages of each tell, so that
   * about `looks` messages are looked at, even if one author wrote most of them.
   */
  async walk(
    { homes, hidden, channels }: Places,
    { from, below, pinned, limit }: Wanted,
    looks: number,
  ): Promise<Found> {
    const isOne = homes.length + channels.length === 1
    const most = isOne ? looks : Math.ceil(looks / 4)
    const newest = (column: "home_id" | "channel_id", least: Statement, end: Statement) => sql`
      SELECT home_id, channel_id, message_id FROM message_search
      WHERE ${sql(column)} = place AND message_id < ${below} AND message_id >= ${least} ORDER BY message_id DESC ${end}`
    const cut = isOne
      ? sql`SELECT ${from}::bigint AS cut`
      : sql`
        SELECT coalesce((SELECT greatest(${from}::bigint, max(top) - least(max(top), ${looks} / sum(${sampled}::float8 / greatest(top - last, 1))))::bigint
          FROM (SELECT last, max(first) OVER () AS top FROM (
            SELECT min(message_id) AS last, max(message_id) AS first FROM (
              SELECT place, true AS of_home, s.message_id FROM unnest(${[...homes]}::bigint[]) AS place, LATERAL (${newest("home_id", sql`${from}`, sql`LIMIT ${sampled}`)}) AS s
              UNION ALL
              SELECT place, false, s.message_id FROM unnest(${[...channels]}::bigint[]) AS place, LATERAL (${newest("channel_id", sql`${from}`, sql`LIMIT ${sampled}`)}) AS s) AS samples
            GROUP BY place, of_home HAVING count(*) >= ${sampled}) AS ends) AS paces), ${from}::bigint) AS cut`
    const rows = await sql<{ edge: Snowflake | number; channel_id: Snowflake | null; message_id: Snowflake }[]>`
      WITH reach AS MATERIALIZED (${cut}),
      seen AS MATERIALIZED (
        SELECT place, true AS of_home, s.* FROM reach, unnest(${[...homes]}::bigint[]) AS place, LATERAL (${newest("home_id", sql`cut`, sql`LIMIT ${most}`)}) AS s
        UNION ALL
        SELECT place, false, s.* FROM reach, unnest(${[...channels]}::bigint[]) AS place, LATERAL (${newest("channel_id", sql`cut`, sql`LIMIT ${most}`)}) AS s),
      whole AS MATERIALIZED (
        SELECT greatest((SELECT max(last) FROM (
            SELECT min(message_id) AS last FROM seen GROUP BY place, of_home HAVING count(*) >= ${most}) AS ends),
          CASE WHEN cut > ${from}::bigint THEN cut ELSE 0 END) AS edge FROM reach)
      SELECT w.edge, found.channel_id, found.message_id FROM whole w LEFT JOIN LATERAL (
        SELECT c.channel_id, c.message_id
        FROM (SELECT * FROM seen WHERE message_id >= w.edge AND NOT (of_home AND channel_id = ANY(${[...hidden]}::bigint[]))
          ORDER BY message_id DESC OFFSET 0) AS c
        WHERE ${stands(sql, pinned)}
        ORDER BY c.message_id DESC LIMIT ${limit}) AS found ON true
      ORDER BY found.message_id DESC`
    const found = rows.filter((row): row is typeof row & MessagePlace => row.channel_id !== null)
    const { edge } = rows[0]!
    return { found, edge: edge === 0 ? null : String(edge) }
  },

  /**
   * About the newest message below an id in some places and a participant's latest conversations:
   * where it makes sense to begin. `spread`: ids between which all messages are equally many, by
   * PostgreSQL's statistics; none, where it has none yet.
   */
  async newestIn(
    { homes, channels }: Pick<Places, "homes" | "channels">,
    participant: Snowflake | null,
    below: Snowflake,
  ): Promise<{ newest: Snowflake | null; spread: Snowflake[] }> {
    const last = (column: "home_id" | "channel_id") => sql`
      SELECT message_id FROM message_search WHERE ${sql(column)} = place AND message_id < ${below} ORDER BY message_id DESC LIMIT 1`
    const [row] = await sql<{ newest: Snowflake | null; spread: string | null }[]>`
      SELECT max(message_id)::text AS newest, (SELECT histogram_bounds::text FROM pg_stats
        WHERE schemaname = current_schema() AND tablename = 'message_search' AND attname = 'message_id') AS spread FROM (
        SELECT s.message_id FROM unnest(${[...homes]}::bigint[]) AS place, LATERAL (${last("home_id")}) AS s
        UNION ALL SELECT s.message_id FROM unnest(${[...channels]}::bigint[]) AS place, LATERAL (${last("channel_id")}) AS s
        UNION ALL SELECT s.message_id FROM (
          SELECT id AS place FROM direct_channels WHERE user_id = ${participant}::bigint OR other_id = ${participant}::bigint ORDER BY id DESC LIMIT ${latest}
        ) AS direct, LATERAL (${last("home_id")}) AS s) AS ends`
    return { newest: row!.newest, spread: row!.spread === null ? [] : row!.spread.slice(1, -1).split(",") }
  },
})

/** Searches by words. */
const wordReads = (sql: Sql) => ({
  /**
   * About how many messages in all places match, by PostgreSQL's statistics of how frequent words
   * are.
   */
  async expected(words: string): Promise<number> {
    // A literal: for a parameter the planner has no estimate.
    const text = words.replaceAll("'", "''")
    const [row] = await sql.unsafe<{ "QUERY PLAN": [{ Plan: { "Plan Rows": number } }] }[]>(
      `EXPLAIN (FORMAT JSON) SELECT FROM message_search WHERE words @@ '${text}'::tsquery`,
    )
    return row!["QUERY PLAN"][0].Plan["Plan Rows"]
  },

  /**
   * What matches, from the newest back, through the index of words. `pieces` are taken one after
   * the other, and only until enough is found or so much looked at: the statement is carried out as
   * it is read. Of a piece that has more than its `most` nothing is found.
   * @param words as PostgreSQL reads a `tsquery`, each of which has to match
   * @param exact what beside them has to be so of a message's words; null: nothing
   * @param places null: the words say where
   * @returns `own`: how many of what was looked at stood in the places; `full`: the first piece with too much
   */
  async newest(
    { words, exact }: { words: readonly string[]; exact: string | null },
    pieces: readonly BoundedPiece[],
    { places, hidden }: { places: Placed | null; hidden: readonly Snowflake[] },
    { from, below, pinned, limit }: Wanted,
    looks: number,
  ): Promise<Found & { own: number; full: number | null }> {
    // A row that is read for its id has its words with it: they are compared there.
    const isHere =
      places === null
        ? sql`true`
        : sql`(home_id = ANY(${[...places.homes]}::bigint[]) OR channel_id = ANY(${[...places.channels]}::bigint[])
            OR ${places.fact === null ? sql`false` : sql`words @@ ${`'${places.fact}'`}::text::tsquery`})`
    const rows = await sql<
      (MessagePlace & { at: number; own: number; is_found: boolean; is_full: boolean; place: number })[]
    >`
      SELECT channel_id, message_id, at, own, is_found, is_full, place FROM (
        SELECT c.*, CASE WHEN c.is_here AND c.is_exact AND NOT c.is_full THEN ${stands(sql, pinned, unedited(sql))} ELSE false END AS is_found
        FROM (
          SELECT s.*, place::int, row_number() OVER so_far AS at, count(*) FILTER (WHERE is_here AND NOT is_full) OVER so_far AS own
          FROM unnest(${pieces.map(({ words }) => words ?? "")}::text[], ${column(pieces, "from")}::bigint[], ${column(pieces, "below")}::bigint[],
            ${column(pieces, "most")}::bigint[]) WITH ORDINALITY AS piece (cells, since, ending, most, place),
          LATERAL (
            SELECT m.*, count(*) OVER () > most AS is_full FROM (
              SELECT home_id, channel_id, message_id, edited_at, channel_id <> ALL(${[...hidden]}::bigint[]) AND ${isHere} AS is_here,
                ${exact === null ? sql`true` : sql`words @@ ${exact}::text::tsquery`} AS is_exact
              FROM message_search
              WHERE ${each(sql, words)} ${pieces[0]?.words === null ? sql`` : sql`AND words @@ cells::tsquery`}
                -- The index of ids is not wanted.
                AND message_id + 0 < least(ending, ${below}::bigint) AND message_id + 0 >= greatest(since, ${from}::bigint)
              LIMIT most + 1) AS m
            ORDER BY message_id DESC OFFSET 0) AS s
          WINDOW so_far AS (ROWS UNBOUNDED PRECEDING)
          LIMIT ${looks}) AS c
        OFFSET 0) AS seen
      WHERE is_found OR is_full OR at = ${looks} LIMIT ${limit}`
    const full = rows.find(row => row.is_full)?.place ?? null
    const found = rows.filter(row => row.is_found)
    const last = rows.at(-1)
    if (full !== null) return { found, edge: pieces[full - 1]!.below, own: last!.own, full: full - 1 }
    return { found, edge: last?.at === looks ? last.message_id : null, own: last?.own ?? 0, full: null }
  },

  /**
   * All messages that match, the newest first, through the index of words. Each place is searched
   * by itself: what is rare in it is found without going through what is frequent elsewhere. @param
   * where facts, one of which a message must have; no message has two of them
   */
  async matching(
    words: readonly string[],
    where: readonly string[],
    { hidden }: Pick<Places, "hidden">,
    { from, below, pinned, limit }: Wanted,
  ): Promise<MessagePlace[]> {
    return sql<MessagePlace[]>`
      SELECT c.channel_id, c.message_id FROM (
        SELECT s.* FROM unnest(${where.map(fact => `'${fact}'`)}::text[]) AS place, LATERAL (
          SELECT home_id, channel_id, message_id, edited_at FROM message_search
          WHERE ${each(sql, words)} AND words @@ place::tsquery
            -- Its own index of ids is not wanted.
            AND message_id + 0 < ${below}::bigint AND message_id + 0 >= ${from}::bigint AND channel_id <> ALL(${[...hidden]}::bigint[])) AS s
        ORDER BY message_id DESC OFFSET 0) AS c
      WHERE ${stands(sql, pinned, unedited(sql))} ORDER BY c.message_id DESC LIMIT ${limit}`
  },

  /** The newest first, and no more of them than fit into a page. */
  messages: (keys: readonly MessagePlace[], maxBytes: number = limits.messagesPageBytes): Promise<MessagesWithin> =>
    messagesWithin(
      sql,
      maxBytes,
      sql`SELECT ${messageFields(sql)} FROM ${pairs(sql, keys)} AS k (channel_id, id) JOIN messages m USING (channel_id, id)
        LEFT JOIN users u ON u.id = m.author_id WHERE NOT m.deleted`,
      "ORDER BY id DESC",
    ),
})

/** Searches for a part of the texts of one channel. */
const textReads = (sql: Sql) => ({
  /** The newest texts of a channel below an id, indexed or not. */
  async tail(
    channel: Snowflake,
    below: Snowflake,
    limit: number,
  ): Promise<{ id: Snowflake; content: string | null }[]> {
    return sql<{ id: Snowflake; content: string | null }[]>`
      SELECT id, content FROM messages WHERE channel_id = ${channel} AND id < ${below} AND NOT deleted ORDER BY id DESC LIMIT ${limit}`
  },

  /**
   * Looks through a number of texts of a channel below an id for a pattern. @param inNone only those that are in no block
   * @returns `edge`: the last message that was looked at, or the first that no block has; "0": there are no more
   */
  async walkTexts(
    channel: Snowflake,
    pattern: string,
    below: Snowflake,
    { limit, looks, inNone }: { limit: number; looks: number; inNone: boolean },
  ): Promise<{ found: Snowflake[]; edge: Snowflake; isWhole: boolean }> {
    const [row] = await sql<{ found: Snowflake[]; edge: Snowflake; is_whole: boolean }[]>`
      WITH since AS MATERIALIZED (SELECT ${
        inNone
          ? sql`coalesce((SELECT upto_id FROM message_search_blocks WHERE channel_id = ${channel} ORDER BY upto_id DESC LIMIT 1), 0)`
          : sql`0::bigint`
      } AS id),
      looked AS (SELECT message_id, position(${pattern} IN folded) > 0 AS is_hit
        FROM message_search WHERE channel_id = ${channel} AND message_id < ${below} AND message_id > (SELECT id FROM since) ORDER BY message_id DESC LIMIT ${looks})
      SELECT (SELECT coalesce(array_agg(message_id::text), '{}') FROM (SELECT message_id FROM looked WHERE is_hit ORDER BY message_id DESC LIMIT ${limit}) AS h) AS found,
        (SELECT (CASE WHEN count(*) >= ${looks} THEN min(message_id) WHEN (SELECT id FROM since) = 0 THEN 0
          ELSE least((SELECT id FROM since) + 1, ${below}::bigint) END)::text FROM looked) AS edge,
        (SELECT count(*) < ${looks} FROM looked) AS is_whole`
    return { found: row!.found, edge: row!.edge, isWhole: row!.is_whole }
  },

  /**
   * The same by blocks: through the texts of those alone whose signature has all of a pattern's places.
   * @param places of the pattern, see `placesOf`; at least one
   * @param most blocks that are looked at, and texts; a block that has more than these is not looked through
   */
  async matchingTexts(
    channel: Snowflake,
    { pattern, places }: { pattern: string; places: readonly number[] },
    below: Snowflake,
    { limit, blocks, looks }: { limit: number; blocks: number; looks: number },
  ): Promise<{ found: Snowflake[]; edge: Snowflake }> {
    const isHit = places.reduce(
      (before, place) => sql`${before} AND get_bit(signature, ${place}::int % (8 * length(signature))) = 1`,
      sql`true`,
    )
    const rows = await sql<{ message_id: Snowflake | null; upto_id: Snowflake; is_stop: boolean }[]>`
      SELECT message_id, upto_id, is_stop FROM (
        SELECT * FROM (
          SELECT upto_id, cost, row_number() OVER so_far = ${blocks} OR sum(cost) OVER so_far > ${looks} AS is_stop
          FROM (
            SELECT upto_id, CASE WHEN signature IS NULL OR (${isHit}) THEN looks ELSE 0 END AS cost
            FROM message_search_blocks WHERE channel_id = ${channel} AND upto_id <= coalesce((
              SELECT upto_id FROM message_search_blocks WHERE channel_id = ${channel} AND upto_id >= ${below}::bigint - 1 ORDER BY upto_id LIMIT 1), ${largest})
            ORDER BY upto_id DESC) AS newest
          WINDOW so_far AS (ROWS UNBOUNDED PRECEDING) LIMIT ${blocks}) AS counted
        WHERE cost > 0 OR is_stop) AS block
      LEFT JOIN LATERAL (
        SELECT message_id FROM message_search
        WHERE NOT is_stop AND channel_id = ${channel} AND message_id <= upto_id AND message_id < ${below} AND message_id > coalesce((
            SELECT p.upto_id FROM message_search_blocks p WHERE p.channel_id = ${channel} AND p.upto_id < block.upto_id ORDER BY p.upto_id DESC LIMIT 1), 0)
          AND position(${pattern} IN folded) > 0
        ORDER BY message_id DESC) AS hit ON true
      WHERE is_stop OR message_id IS NOT NULL LIMIT ${limit}`
    const stop = rows.find(({ is_stop }) => is_stop)
    const found = rows.flatMap(({ message_id }) => message_id ?? [])
    if (!stop) return { found, edge: "0" }
    const edge = BigInt(stop.upto_id) + 1n
    return { found, edge: edge < BigInt(below) ? String(edge) : below }
  },
})

/** Searches for users and public servers by their names. */
const nameReads = (sql: Sql) => ({
  /**
   * Users whose names begin with a text, in the order of names, without those who blocked the user
   * and those whom the user blocked.
   */
  async usersBeginning(
    query: string,
    { user, server, skip, limit }: { user: Snowflake; server: Snowflake | null; skip: number; limit: number },
  ): Promise<FoundAccount[]> {
    return sql<FoundAccount[]>`
      SELECT id, username, bot, badges FROM users u
      WHERE lower(username) ~>=~ lower(${query}::text) AND lower(username) ~<~ (lower(${query}::text) || chr(1114111)) AND deletion_status <> 'purged'
        AND NOT EXISTS (SELECT FROM relationships r WHERE r.user_id = ${user} AND r.other_id = u.id AND r.status = 'blocked')
        AND NOT EXISTS (SELECT FROM relationships r WHERE r.user_id = u.id AND r.other_id = ${user} AND r.status = 'blocked')
        ${server === null ? sql`` : sql`AND EXISTS (SELECT FROM members m WHERE m.server_id = ${server} AND m.user_id = u.id)`}
      ORDER BY lower(username) USING ~<~ OFFSET ${skip} LIMIT ${limit}`
  },

  /**
   * Public servers, the best hits first, and among equal ones the largest. With `after` the list
   * continues behind it. A text of fewer than three letters is searched at the beginning of names.
   */
  async publicServers(
    query: string,
    { category, after, limit }: { category: string | null; after: ServerHitPlace | null; limit: number },
  ): Promise<ServerHit[]> {
    const like = `%${escaped(query)}%`
    const where = /[\p{L}\p{N}]{3}/u.test(query)
      ? sql`lower(name || ' ' || coalesce(description, '')) LIKE lower(${like}::text)
          AND (lower(name) LIKE lower(${like}::text) OR lower(description) LIKE lower(${like}::text))`
      : sql`lower(name) ~>=~ lower(${query}::text) AND lower(name) ~<~ (lower(${query}::text) || chr(1114111))`
    return sql<ServerHit[]>`
      SELECT * FROM (
        SELECT id, name, description, icon_url, member_count, category,
          CASE WHEN lower(name) = lower(${query}::text) THEN 100 WHEN starts_with(lower(name), lower(${query}::text)) THEN 90
            WHEN lower(name) LIKE lower(${like}::text) THEN 70 ELSE 40 END AS hundredths
        FROM servers WHERE public AND ${where} ${category === null ? sql`` : sql`AND lower(category) = lower(${category}::text)`}) AS s
      WHERE ${
        after === null
          ? sql`true`
          : sql`(hundredths, member_count, id) < (${after.hundredths}::int, ${after.member_count}::int, ${after.id}::bigint)`
      }
      ORDER BY hundredths DESC, member_count DESC, id DESC LIMIT ${limit}`
  },
})

/** What searches read. The statements are made for one way each; see `searchSettings`. */
export const searchStorage = (sql: Sql) => ({
  ...scopeReads(sql),
  ...placeReads(sql),
  ...wordReads(sql),
  ...textReads(sql),
  ...nameReads(sql),
})

/** Escapes the characters that have a meaning in LIKE. */
export const escaped = (text: string): string => text.replace(/[\\%_]/g, sign => `\\${sign}`)

type FoundAccount = Pick<UserRow, "id" | "username" | "bot" | "badges">

/** Where a server stands among the hits. */
export interface ServerHitPlace {
  readonly hundredths: number
  readonly member_count: number
  readonly id: Snowflake
}
interface ServerHit extends ServerHitPlace {
  readonly name: string
  readonly description: string | null
  readonly icon_url: string | null
  readonly category: string | null
}

/**
 * How statements of searches are planned. Each statement is written for one path through the
 * indexes, which is chosen beforehand from the newest messages: the planner knows less of how often
 * a word occurs in a place.
 */
export const searchSettings = {
  enable_seqscan: "off",
  enable_hashjoin: "off",
  enable_mergejoin: "off",
  plan_cache_mode: "force_generic_plan",
  jit: "off",
} as const
