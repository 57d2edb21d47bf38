import type { Snowflake } from "../../contract/core/fields.ts"
import type { HolderRule } from "../../domain/core/holder-rule.ts"
import type { MemberState, TimeoutState } from "../../domain/communities/servers.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql, Statement } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    left_timeouts: {
      userColumns: ["user_id"],
      key: { server_id: "bigint", user_id: "bigint" },
      given: ["server_id", "user_id", "timeout_until", "timeout_reason"],
      atPurge: "erased",
    },
  },
}

export interface ListedMember extends MemberState {
  username: string
  bot: boolean
  badges: string[]
}

/**
 * Which of a server's members are meant: those whose username or nickname begins with a text; ""
 * means all.
 */
export interface MemberChoice {
  readonly server: Snowflake
  readonly query: string
}

/** A piece of a list in the order of ids: after the one, up to and with the other. */
export interface IdRange {
  readonly after: Snowflake
  readonly until: Snowflake
}

/** Everything but the member's roles, which have a write of their own. */
interface MemberFacts extends Omit<MemberState, "roles"> {
  server_id: Snowflake
}

export const updateMember = defineWrite<MemberFacts>("updateMember", (sql, rows) => {
  const last = lastOf(rows, row => `${row.server_id}:${row.user_id}`)
  return sql`
      UPDATE members SET nickname = t.nickname, timeout_until = t.timeout_until, timeout_reason = t.timeout_reason, temporary = t.temporary
      FROM unnest(${column(last, "server_id")}::bigint[], ${column(last, "user_id")}::bigint[], ${column(last, "nickname")}::text[],
        ${column(last, "timeout_until")}::bigint[], ${column(last, "timeout_reason")}::text[], ${column(last, "temporary")}::text[]::boolean[])
        AS t (server_id, user_id, nickname, timeout_until, timeout_reason, temporary)
      WHERE members.server_id = t.server_id AND members.user_id = t.user_id`
})

/** What is over at `now`, in Unix seconds, goes with it. */
export const putLeftTimeout = defineWrite<TimeoutState & { server_id: Snowflake; user_id: Snowflake; now: number }>(
  "putLeftTimeout",
  (sql, rows) => {
    const last = lastOf(rows, row => `${row.server_id}:${row.user_id}`)
    return sql`
      WITH t AS MATERIALIZED (
        SELECT * FROM unnest(${column(last, "server_id")}::bigint[], ${column(last, "user_id")}::bigint[], ${column(last, "timeout_until")}::bigint[],
          ${column(last, "timeout_reason")}::text[], ${column(last, "now")}::bigint[]) AS t (server_id, user_id, timeout_until, timeout_reason, now)),
      over AS (DELETE FROM left_timeouts l USING (SELECT server_id, min(now) AS now FROM t GROUP BY server_id) AS at
        WHERE l.server_id = at.server_id AND l.timeout_until <= at.now AND NOT EXISTS (SELECT FROM t WHERE t.server_id = l.server_id AND t.user_id = l.user_id))
      INSERT INTO left_timeouts (server_id, user_id, timeout_until, timeout_reason)
      SELECT server_id, user_id, timeout_until, timeout_reason FROM t
      ON CONFLICT (server_id, user_id) DO UPDATE SET timeout_until = excluded.timeout_until, timeout_reason = excluded.timeout_reason`
  },
)

export const deleteLeftTimeout = defineWrite<{ server_id: Snowflake; user_id: Snowflake }>(
  "deleteLeftTimeout",
  (sql, rows) => sql`
    DELETE FROM left_timeouts USING unnest(${column(rows, "server_id")}::bigint[], ${column(rows, "user_id")}::bigint[]) AS t (server_id, user_id)
    WHERE left_timeouts.server_id = t.server_id AND left_timeouts.user_id = t.user_id`,
)

const columns = (sql: Sql) => sql`
  m.user_id, u.username, u.bot, u.badges, m.nickname, m.joined_at, m.roles, m.timeout_until, m.timeout_reason, m.temporary`

/**
 * Plain comparisons by bytes in place of LIKE: nothing has to be escaped, and a prepared plan can
 * use the index.
 */
const beginsWith = (sql: Sql, name: Statement, query: string): Statement =>
  sql`lower(${name}) ~>=~ lower(${query}::text) AND lower(${name}) ~<~ (lower(${query}::text) || chr(1114111))`

/**
 * Ids of the chosen members, each once. Two looks into two indexes: PostgreSQL would serve no OR
 * over two tables from either.
 */
function chosen(sql: Sql, { server, query }: MemberChoice): Statement {
  if (query === "") return sql`SELECT user_id FROM members WHERE server_id = ${server}`
  return sql`
    SELECT m.user_id FROM users u JOIN members m ON m.server_id = ${server} AND m.user_id = u.id
    WHERE ${beginsWith(sql, sql`u.username`, query)}
    UNION
    SELECT user_id FROM members
    WHERE server_id = ${server} AND nickname IS NOT NULL AND ${beginsWith(sql, sql`nickname`, query)}`
}

export const guildMembersStorage = (sql: Sql) => ({
  /** How many members a rule holds for, counted up to `atMost`. */
  async countHolders(server: Snowflake, rule: HolderRule, atMost: number): Promise<number> {
    const ids = (list: readonly Snowflake[]) => sql`${[...list]}::bigint[]`
    const { administrators, allowed, denied, granting, isGranted } = rule
    const [row] = await sql<{ count: number }[]>`
      SELECT count(*)::int AS count FROM (
        SELECT FROM members
        WHERE server_id = ${server} AND (user_id = ${rule.owner_id} OR roles && ${ids(administrators)} OR CASE
          WHEN user_id = ANY(${ids(allowed.members)}) THEN true
          WHEN user_id = ANY(${ids(denied.members)}) THEN false
          WHEN roles && ${ids(allowed.roles)} THEN true
          WHEN roles && ${ids(denied.roles)} THEN false
          ELSE ${isGranted}::boolean OR roles && ${ids(granting)} END)
        LIMIT ${atMost}) AS holders`
    return row!.count
  },

  /**
   * The last id of each piece of a list that is cut into pieces of `size`: what comes and goes
   * later shifts no other piece. @param most how many members, counted from the lowest id; null:
   * all
   */
  async pieces(choice: MemberChoice, size: number, most: number | null): Promise<Snowflake[]> {
    const rows = await sql<{ user_id: Snowflake }[]>`
      SELECT user_id FROM (
        SELECT user_id, row_number() OVER byId AS place, lead(user_id) OVER byId IS NULL AS is_last
        FROM (SELECT user_id FROM (${chosen(sql, choice)}) AS c ORDER BY user_id LIMIT ${most}) AS wanted
        WINDOW byId AS (ORDER BY user_id)) AS placed
      WHERE place % ${size} = 0 OR is_last ORDER BY user_id`
    return rows.map(({ user_id }) => user_id)
  },

  /**
   * One piece. All pieces of a list together look at each member of the server once, whatever is
   * looked for.
   */
  async piece({ server, query }: MemberChoice, { after, until }: IdRange, most: number): Promise<ListedMember[]> {
    const isNamed =
      query === ""
        ? sql`true`
        : sql`(${beginsWith(sql, sql`u.username`, query)} OR (m.nickname IS NOT NULL AND ${beginsWith(sql, sql`m.nickname`, query)}))`
    return sql<ListedMember[]>`
      SELECT ${columns(sql)} FROM members m JOIN users u ON u.id = m.user_id
      WHERE m.server_id = ${server} AND m.user_id > ${after} AND m.user_id <= ${until} AND ${isNamed} ORDER BY m.user_id LIMIT ${most}`
  },

  /** Where there is one piece only: through the indexes of names. */
  async onlyPiece(choice: MemberChoice, until: Snowflake, most: number): Promise<ListedMember[]> {
    return sql<ListedMember[]>`
      SELECT ${columns(sql)} FROM (
        SELECT user_id FROM (${chosen(sql, choice)}) AS c WHERE user_id <= ${until} ORDER BY user_id LIMIT ${most}) AS wanted
      JOIN members m ON m.server_id = ${choice.server} AND m.user_id = wanted.user_id JOIN users u ON u.id = m.user_id
      ORDER BY m.user_id`
  },

  /**
   * One page of all, in the order of ids. Users are looked up one by one: a join could read all
   * that there are.
   */
  async page(server: Snowflake, after: Snowflake, limit: number): Promise<ListedMember[]> {
    return sql<ListedMember[]>`
      SELECT ${columns(sql)} FROM (
        SELECT * FROM members WHERE server_id = ${server} AND user_id > ${after} ORDER BY user_id LIMIT ${limit}) AS m,
        LATERAL (SELECT username, bot, badges FROM users WHERE id = m.user_id LIMIT 1) AS u
      ORDER BY m.user_id`
  },

  async leftTimeouts(server: Snowflake, users: readonly Snowflake[]): Promise<Map<Snowflake, TimeoutState>> {
    const rows = await sql<(TimeoutState & { user_id: Snowflake })[]>`
      SELECT user_id, timeout_until, timeout_reason FROM left_timeouts WHERE server_id = ${server} AND user_id = ANY(${[...users]}::bigint[])`
    return new Map(rows.map(({ user_id, ...timeout }) => [user_id, timeout]))
  },

  /** Where these users are members for as long as they are there. */
  async temporary(users: readonly Snowflake[]): Promise<{ server_id: Snowflake; user_id: Snowflake }[]> {
    return sql<{ server_id: Snowflake; user_id: Snowflake }[]>`
      SELECT m.server_id, m.user_id FROM members m JOIN servers s ON s.id = m.server_id
      WHERE m.temporary AND m.user_id = ANY(${[...users]}::bigint[])`
  },

  async some(server: Snowflake, users: readonly Snowflake[]): Promise<ListedMember[]> {
    return sql<ListedMember[]>`
      SELECT ${columns(sql)} FROM members m JOIN users u ON u.id = m.user_id
      WHERE m.server_id = ${server} AND m.user_id = ANY(${[...users]}::bigint[]) ORDER BY m.user_id`
  },

  /** Users who blocked the user, or whom the user blocked. */
  async isLargerThan(server: Snowflake, members: number): Promise<boolean> {
    const rows = await sql`SELECT FROM servers WHERE id = ${server} AND member_count > ${members}`
    return rows.length > 0
  },

  async blocked(user: Snowflake, others: readonly Snowflake[]): Promise<Set<Snowflake>> {
    const rows = await sql<{ other: Snowflake }[]>`
      SELECT other_id AS other FROM relationships WHERE user_id = ${user} AND status = 'blocked' AND other_id = ANY(${[...others]}::bigint[])
      UNION ALL
      SELECT user_id FROM relationships WHERE other_id = ${user} AND status = 'blocked' AND user_id = ANY(${[...others]}::bigint[])`
    return new Set(rows.map(({ other }) => other))
  },
})
