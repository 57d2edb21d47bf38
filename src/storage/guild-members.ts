import type { Snowflake } from "../contract/fields.ts"
import type { Sql, Statement } from "./database.ts"

export interface ListedMember {
  user_id: Snowflake
  username: string
  bot: boolean
  nickname: string | null
  joined_at: number
  roles: Snowflake[]
}

/** Which of a server's members are meant: those whose username or nickname begins with a text; "" means all. */
export interface MemberChoice {
  readonly server: Snowflake
  readonly query: string
}

/** A piece of a list in the order of ids: after the one, up to and with the other. */
export interface IdRange {
  readonly after: Snowflake
  readonly until: Snowflake
}

const columns = (sql: Sql) => sql`m.user_id, u.username, u.bot, m.nickname, m.joined_at, m.roles`

/** Plain comparisons by bytes in place of LIKE: nothing has to be escaped, and a prepared plan can use the index. */
const beginsWith = (sql: Sql, name: Statement, query: string): Statement =>
  sql`lower(${name}) ~>=~ lower(${query}::text) AND lower(${name}) ~<~ (lower(${query}::text) || chr(1114111))`

/** Ids of the chosen members, each once. Two looks into two indexes: PostgreSQL would serve no OR over two tables from either. */
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
  /**
   * The last id of each piece of a list that is cut into pieces of `size`: what comes and goes later shifts no other piece.
   * @param most how many members, counted from the lowest id; null: all
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

  /** One piece. All pieces of a list together look at each member of the server once, whatever is looked for. */
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

  async some(server: Snowflake, users: readonly Snowflake[]): Promise<ListedMember[]> {
    return sql<ListedMember[]>`
      SELECT ${columns(sql)} FROM members m JOIN users u ON u.id = m.user_id
      WHERE m.server_id = ${server} AND m.user_id = ANY(${[...users]}::bigint[]) ORDER BY m.user_id`
  },

  /** Those who blocked the user, or whom he did. */
  async blocked(user: Snowflake, others: readonly Snowflake[]): Promise<Set<Snowflake>> {
    const rows = await sql<{ other: Snowflake }[]>`
      SELECT other_id AS other FROM relationships WHERE user_id = ${user} AND status = 'blocked' AND other_id = ANY(${[...others]}::bigint[])
      UNION ALL
      SELECT user_id FROM relationships WHERE other_id = ${user} AND status = 'blocked' AND user_id = ANY(${[...others]}::bigint[])`
    return new Set(rows.map(({ other }) => other))
  },
})
