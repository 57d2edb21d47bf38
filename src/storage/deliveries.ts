import type { Snowflake } from "../contract/fields.ts"
import { compareIds, epochMs } from "../domain/snowflake.ts"
import type { Sql } from "./database.ts"
import { column } from "./write.ts"

/** Up to when messages were delivered to a user: those of servers, and those of DMs; Unix milliseconds, null: unchanged. */
export interface DeliveryRow {
  readonly user_id: Snowflake
  readonly guild_ms: number | null
  readonly direct_ms: number | null
}

/** What the viewers of a channel have received, as one block of bytes: see `domain/delivered.ts`. */
export interface ReceiverRow {
  /** Of a server's members: what they have; of the two of a DM: nothing. */
  readonly roles: readonly Snowflake[]
  /** One of those who were asked for by name. */
  readonly named: boolean
  readonly members: Buffer
}

/** An id as a number that orders the ids of one shard, and an id above all of a millisecond. */
const rankOf = (sql: Sql, id: string) => sql.unsafe(`((${id} >> 22) * 4096 + (${id} & 4095))`)
const rankAfter = (sql: Sql, ms: string) => sql.unsafe(`((${ms} - ${epochMs}) * 4096 + 4095)`)

export const deliveriesStorage = (sql: Sql) => ({
  /**
   * Moves cursors forward; never back, so it does not matter which worker writes first, and none of them needs to ask a home.
   * In the order of ids, as two workers may move the same ones. With them goes up to when this worker has moved any: a row of its
   * own, so that workers do not wait for each other.
   */
  async move(rows: readonly DeliveryRow[], worker: string): Promise<void> {
    const upTo = Math.max(...rows.map(({ guild_ms, direct_ms }) => Math.max(guild_ms ?? 0, direct_ms ?? 0)))
    const moved = rows.toSorted((a, b) => compareIds(a.user_id, b.user_id))
    await sql`
      WITH bound AS (
        INSERT INTO delivery_bounds AS b (worker, ms) VALUES (${worker}, ${upTo})
        ON CONFLICT (worker) DO UPDATE SET ms = excluded.ms WHERE b.ms < excluded.ms
      )
      INSERT INTO deliveries AS d (user_id, guild_ms, direct_ms)
      SELECT t.user_id, t.guild_ms, t.direct_ms
      FROM unnest(${column(moved, "user_id")}::bigint[], ${column(moved, "guild_ms")}::bigint[], ${column(moved, "direct_ms")}::bigint[])
        WITH ORDINALITY AS t (user_id, guild_ms, direct_ms, place)
      WHERE EXISTS (SELECT FROM users u WHERE u.id = t.user_id) ORDER BY t.place
      ON CONFLICT (user_id) DO UPDATE SET guild_ms = greatest(d.guild_ms, excluded.guild_ms), direct_ms = greatest(d.direct_ms, excluded.direct_ms)
      WHERE greatest(d.guild_ms, excluded.guild_ms) IS DISTINCT FROM d.guild_ms
        OR greatest(d.direct_ms, excluded.direct_ms) IS DISTINCT FROM d.direct_ms`
  },

  /**
   * Up to when cursors may stand, as of now; kept on in this worker's name, so that what is said in the names of others before that
   * can go. Of these some may be in use: they are left to whoever comes next.
   */
  async takeBound(worker: string): Promise<number | undefined> {
    const [bound] = await sql<{ ms: number }[]>`
      WITH latest AS (SELECT max(ms) AS ms FROM delivery_bounds),
      older AS (
        SELECT b.worker FROM delivery_bounds b WHERE b.ms < (SELECT ms FROM latest) AND b.worker <> ${worker}
        ORDER BY b.worker FOR UPDATE OF b SKIP LOCKED
      ),
      gone AS (DELETE FROM delivery_bounds WHERE worker IN (SELECT worker FROM older))
      INSERT INTO delivery_bounds AS b (worker, ms) SELECT ${worker}, ms FROM latest WHERE ms IS NOT NULL
      ON CONFLICT (worker) DO UPDATE SET ms = greatest(b.ms, excluded.ms)
      RETURNING ms`
    return bound?.ms
  },

  /**
   * Every member of a server with how far he has received a channel of it, by his roles where these decide about what he sees, and
   * some by themselves. Cursors are looked up one by one: there are as many as the service has users, and nobody reads all of them
   * for one server's sake.
   */
  async ofServer(
    server: Snowflake,
    channel: Snowflake,
    { byRoles, named }: { byRoles: boolean; named: readonly Snowflake[] },
  ): Promise<ReceiverRow[]> {
    const members = (isNamed: boolean) => sql`
      SELECT m.user_id, m.roles, coalesce(${rankOf(sql, "m.since_id")}, ${rankAfter(sql, "((m.joined_at + 1) * 1000 - 1)")}) AS since,
        (SELECT ${rankAfter(sql, "d.guild_ms")} FROM deliveries d WHERE d.user_id = m.user_id) AS received, ${rankOf(sql, "r.visible_id")} AS read
      FROM members m LEFT JOIN read_states r ON r.channel_id = ${channel} AND r.user_id = m.user_id
      WHERE m.server_id = ${server} AND (m.user_id = ANY(${[...named]}::bigint[])) = ${isNamed}`
    const block = sql`string_agg(int8send(t.user_id) || float8send(t.since) || float8send(greatest(t.since, t.received, t.read)), '') AS members`
    return sql<ReceiverRow[]>`
      SELECT ${byRoles ? sql`t.roles` : sql`'{}'::bigint[] AS roles`}, false AS named, ${block} FROM (${members(false)}) AS t
      ${byRoles ? sql`GROUP BY t.roles` : sql`HAVING count(*) > 0`}
      UNION ALL
      SELECT t.roles, true, ${block} FROM (${members(true)}) AS t GROUP BY t.roles`
  },

  /** The two of a DM. */
  async ofDirect(channel: Snowflake): Promise<ReceiverRow[]> {
    return sql<ReceiverRow[]>`
      SELECT '{}'::bigint[] AS roles, false AS named,
        string_agg(int8send(t.user_id) || float8send(0) || float8send(greatest(0, ${rankAfter(sql, "d.direct_ms")}::float8, ${rankOf(sql, "r.visible_id")}::float8)), '') AS members
      FROM (SELECT unnest(ARRAY[user_id, other_id]) AS user_id FROM direct_channels WHERE id = ${channel} AND other_id IS NOT NULL) AS t
      LEFT JOIN deliveries d ON d.user_id = t.user_id
      LEFT JOIN read_states r ON r.channel_id = ${channel} AND r.user_id = t.user_id
      HAVING count(*) > 0`
  },
})
