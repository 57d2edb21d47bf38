import type { Snowflake } from "../contract/core/fields.ts"
import type { PersonalData } from "../domain/core/personal-data.ts"
import { inTransaction, openPool, within, type PoolOptions, type Sql, type Statements } from "./core/database.ts"
import { column, groupWrites, type Write } from "./core/write.ts"

export const personalData: PersonalData = {
  personal: {
    import_users: {
      userColumns: ["user_id"],
      key: { import_id: "bigint", foreign_id: "text" },
      given: ["import_id", "foreign_id", "user_id", "nickname", "roles"],
      atPurge: "erased",
    },
  },
  others: {
    imports: { why: "Which exports of other products were brought in" },
    import_items: {
      why: "Which channels, messages and the like of an export have become which; they are what is personal",
    },
  },
}

export type ItemKind = "server" | "role" | "category" | "channel" | "direct" | "emoji" | "webhook" | "message"

/** What something of an export has become. */
export interface ImportedItem {
  readonly kind: ItemKind
  readonly foreign_id: string
  readonly own_id: Snowflake
}

export interface ImportedUser {
  readonly foreign_id: string
  readonly user_id: Snowflake
  readonly nickname: string | null
  readonly roles: Readonly<Record<string, readonly string[]>>
}

export interface NewMember {
  readonly server_id: Snowflake
  readonly user_id: Snowflake
  readonly joined_at: number
  readonly nickname: string | null
  readonly roles: readonly Snowflake[]
  readonly since_id: Snowflake
}

/** Users and members that are written, and read, at once. */
export const importPage = 2_000

/** All of it in one transaction: see openStorage. It keeps:
 *   IMP1  What an item has become is noted in the transaction that writes it, so that it comes once,
 *       however often the import is interrupted.
 *   IMP2  Of one import one process writes at a time, and none once it is finished.
 */
export const importStorage = (sql: Statements) => ({
  /** The import of this origin: a new one, or the one that was begun. */
  async begin(format: string, origin: string): Promise<{ id: string; finished_at: number | null }> {
    const [row] = await sql<[{ id: string; finished_at: number | null }]>`
      INSERT INTO imports AS i (format, origin) VALUES (${format}, ${origin})
      ON CONFLICT (format, origin) DO UPDATE SET origin = i.origin RETURNING id::text, finished_at`
    return row
  },

  /** IMP2. @returns false when it is finished, or was given up */
  async hold(id: string): Promise<boolean> {
    const rows = await sql`SELECT FROM imports WHERE id = ${id} AND finished_at IS NULL FOR UPDATE`
    return rows.length > 0
  },

  /** All but messages. */
  async items(id: string): Promise<ImportedItem[]> {
    return sql<ImportedItem[]>`
      SELECT kind, foreign_id, own_id::text FROM import_items WHERE import_id = ${id}
        AND kind IN ('server', 'role', 'category', 'channel', 'direct', 'emoji', 'webhook')`
  },

  /** In the order of the export's ids, those behind one. */
  async users(id: string, after: string): Promise<ImportedUser[]> {
    return sql<ImportedUser[]>`
      SELECT foreign_id, user_id::text, nickname, roles FROM import_users
      WHERE import_id = ${id} AND foreign_id > ${after} ORDER BY foreign_id LIMIT ${importPage}`
  },

  async messages(id: string, foreign: readonly string[]): Promise<Map<string, Snowflake>> {
    const rows = await sql<{ foreign_id: string; own_id: Snowflake }[]>`
      SELECT foreign_id, own_id::text FROM import_items
      WHERE import_id = ${id} AND kind = 'message' AND foreign_id = ANY(${[...foreign]}::text[])`
    return new Map(rows.map(({ foreign_id, own_id }) => [foreign_id, own_id]))
  },

  /** Of each range of ids `[from, to)` the highest that is taken. */
  async highest(
    id: string,
    ranges: readonly { from: Snowflake; to: Snowflake }[],
  ): Promise<{ from: Snowflake; own_id: Snowflake | null }[]> {
    return sql<{ from: Snowflake; own_id: Snowflake | null }[]>`
      SELECT t.low::text AS from, (SELECT max(i.own_id)::text FROM import_items i
        WHERE i.import_id = ${id} AND i.own_id >= t.low AND i.own_id < t.high) AS own_id
      FROM unnest(${column(ranges, "from")}::bigint[], ${column(ranges, "to")}::bigint[]) AS t (low, high)`
  },

  /** How many messages of these channels are pinned, where any are. */
  async pinned(channels: readonly Snowflake[]): Promise<{ channel_id: Snowflake; count: number }[]> {
    return sql<{ channel_id: Snowflake; count: number }[]>`
      SELECT channel_id::text, count(*)::int AS count FROM pins WHERE channel_id = ANY(${[...channels]}::bigint[]) GROUP BY channel_id`
  },

  /** Rows as the server's own turns write them. */
  async write(writes: readonly Write[]): Promise<void> {
    for (const { kind, rows } of groupWrites([{ home: "", writes }])) await kind.statement(sql, rows)
  },

  /** IMP1 */
  async note(id: string, items: readonly ImportedItem[]): Promise<void> {
    await sql`
      INSERT INTO import_items (import_id, kind, foreign_id, own_id)
      SELECT ${id}::bigint, * FROM unnest(${column(items, "kind")}::text[], ${column(items, "foreign_id")}::text[], ${column(items, "own_id")}::bigint[])`
  },

  /** IMP1 */
  async noteUsers(id: string, users: readonly ImportedUser[]): Promise<void> {
    await sql`
      INSERT INTO import_users (import_id, foreign_id, user_id, nickname, roles)
      SELECT ${id}::bigint, t.foreign_id, t.user_id, t.nickname, t.roles::jsonb
      FROM unnest(${column(users, "foreign_id")}::text[], ${column(users, "user_id")}::bigint[], ${column(users, "nickname")}::text[],
        ${users.map(({ roles }) => JSON.stringify(roles))}::text[]) AS t (foreign_id, user_id, nickname, roles)`
  },

  /** Messages that searches are to find: what keeps the index takes them from its list. */
  async listForSearch(places: readonly { channel_id: Snowflake; id: Snowflake }[]): Promise<void> {
    await sql`
      INSERT INTO message_search_backlog (channel_id, message_id)
      SELECT * FROM unnest(${column(places, "channel_id")}::bigint[], ${column(places, "id")}::bigint[])`
  },

  async addMembers(members: readonly NewMember[]): Promise<void> {
    await sql`
      INSERT INTO members (server_id, user_id, joined_at, nickname, roles, since_id)
      SELECT t.server_id, t.user_id, t.joined_at, t.nickname, ARRAY(SELECT jsonb_array_elements_text(t.roles::jsonb)::bigint), t.since_id
      FROM unnest(${column(members, "server_id")}::bigint[], ${column(members, "user_id")}::bigint[], ${column(members, "joined_at")}::bigint[],
        ${column(members, "nickname")}::text[], ${members.map(({ roles }) => JSON.stringify(roles))}::text[], ${column(members, "since_id")}::bigint[])
        AS t (server_id, user_id, joined_at, nickname, roles, since_id)
      ON CONFLICT (server_id, user_id) DO NOTHING`
  },

  async countMembers(servers: readonly Snowflake[]): Promise<void> {
    await sql`
      UPDATE servers SET member_count = (SELECT count(*) FROM members m WHERE m.server_id = servers.id)
      WHERE id = ANY(${[...servers]}::bigint[])`
  },

  async finish(id: string, now: number): Promise<void> {
    await sql`UPDATE imports SET finished_at = ${now} WHERE id = ${id}`
  },

  /** Names and addresses, in lower case, that accounts have. */
  async taken(
    names: readonly string[],
    emails: readonly string[],
  ): Promise<{ names: Set<string>; emails: Set<string> }> {
    const [row] = await sql<[{ names: string[]; emails: string[] }]>`
      SELECT ARRAY(SELECT lower(username) FROM users WHERE lower(username) = ANY(${[...names]}::text[])) AS names,
        ARRAY(SELECT lower(email) FROM users WHERE lower(email) = ANY(${[...emails]}::text[])
          UNION SELECT lower(email) FROM one_time_tokens WHERE kind = 'restore_email' AND is_confirmed AND lower(email) = ANY(${[...emails]}::text[])) AS emails`
    return { names: new Set(row.names), emails: new Set(row.emails) }
  },

  /** Shards for new homes, so many. */
  async shards(count: number): Promise<number[]> {
    const rows = await sql<{ shard: number }[]>`
      SELECT s.shard FROM shards s, generate_series(1, ${Math.ceil(count / 64)}::int) ORDER BY random() LIMIT ${count}`
    return rows.map(({ shard }) => shard)
  },
})

export type ImportStep = ReturnType<typeof importStorage>

/** The most that one step of an import takes; its end writes every member. */
const stepTimeoutMs = 300_000

/** What writes an import, on one connection: each step of it is a transaction. */
export function openImport(pool: Omit<PoolOptions, "connections">) {
  const sql = openPool({
    ...pool,
    connections: 1,
    name: `${pool.name} import`,
    statementTimeoutMs: stepTimeoutMs,
    idleInTransactionTimeoutMs: stepTimeoutMs,
  })
  return {
    step: <T>(act: (step: ImportStep) => Promise<T>): Promise<T> =>
      within(
        inTransaction(sql, transaction => act(importStorage(transaction))),
        stepTimeoutMs,
        "a step of an import",
      ),
    close: () => sql.end({ timeout: 1 }),
  }
}

/** What is asked of imports beside them. */
export const importsStorage = (sql: Sql) => ({
  async list(): Promise<
    {
      id: string
      format: string
      origin: string
      began_at: number
      finished_at: number | null
      users: number
      unclaimed: number
    }[]
  > {
    return sql`
      SELECT i.id::text, i.format, i.origin, i.began_at, i.finished_at, count(u.id)::int AS users,
        count(u.id) FILTER (WHERE u.password_hash IS NULL AND NOT EXISTS (SELECT FROM external_accounts e WHERE e.user_id = u.id))::int AS unclaimed
      FROM imports i LEFT JOIN import_users m ON m.import_id = i.id LEFT JOIN users u ON u.id = m.user_id
      GROUP BY i.id ORDER BY i.id`
  },

  async find(format: string, origin: string): Promise<{ finished_at: number | null } | undefined> {
    const [row] = await sql<{ finished_at: number | null }[]>`
      SELECT finished_at FROM imports WHERE format = ${format} AND origin = ${origin}`
    return row
  },

  /** Whether an account came with an import, and nobody has made it theirs. */
  async isUnclaimed(user: Snowflake): Promise<boolean> {
    const rows = await sql`
      SELECT FROM import_users m JOIN users u ON u.id = m.user_id
      WHERE m.user_id = ${user} AND u.password_hash IS NULL AND u.deletion_status = 'active'
        AND NOT EXISTS (SELECT FROM external_accounts e WHERE e.user_id = u.id)`
    return rows.length > 0
  },

  /** Accounts of imports that nobody has made theirs, in order of their ids. */
  async unclaimed(
    after: Snowflake,
    limit: number,
  ): Promise<{ id: Snowflake; username: string; email: string | null; nickname: string | null }[]> {
    return sql`
      SELECT DISTINCT ON (u.id) u.id::text, u.username, u.email, m.nickname FROM import_users m JOIN users u ON u.id = m.user_id
      WHERE u.id > ${after} AND u.password_hash IS NULL AND u.deletion_status = 'active'
        AND NOT EXISTS (SELECT FROM external_accounts e WHERE e.user_id = u.id)
      ORDER BY u.id LIMIT ${limit}`
  },
})
