import type { Snowflake } from "../../contract/core/fields.ts"
import type { Permission } from "../../contract/core/permissions.ts"
import type { Override } from "../../domain/core/overrides.ts"
import { grantsOf, type AccessRules } from "../../domain/core/permissions.ts"
import { compareIds, epochMs } from "../../domain/core/snowflake.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    deliveries: {
      userColumns: ["user_id"],
      key: { user_id: "bigint" },
      given: ["user_id", "guild_ms", "direct_ms"],
      atPurge: "erased",
    },
  },
  others: {
    delivery_bounds: { why: "Processes of the server" },
  },
}

/**
 * Up to when messages were delivered to a user: those of servers, and those of DMs; Unix
 * milliseconds, null: unchanged.
 */
export interface DeliveryRow {
  readonly user_id: Snowflake
  readonly guild_ms: number | null
  readonly direct_ms: number | null
}

export interface ServerChannel {
  readonly channel_id: Snowflake
  readonly server_id: Snowflake
}

/** What decides who may view a channel of a server. */
export interface ViewingRules {
  readonly server: AccessRules
  readonly overrides: readonly Override[]
}

/** What viewers of a channel have received, as one block of bytes: see `domain/delivered.ts`. */
export interface ReceiverRow {
  readonly channel_id: Snowflake
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
   * Moves cursors forward; never back, so it does not matter which worker writes first, and none of
   * them needs to ask a home. In the order of ids, as two workers may move the same ones. With them
   * goes up to when this worker has moved any: a row of its own, so that workers do not wait for
   * each other.
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
   * Up to when cursors may stand, as of now; kept on in this worker's name, so that bounds in the
   * names of other workers can be deleted. Some of those may be in use: they are left for the next
   * worker.
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

  /** What decides who may view some channels, of those that show who has received what. */
  async viewing(places: readonly ServerChannel[]): Promise<ReadonlyMap<Snowflake, ViewingRules>> {
    const rows = await sql<
      {
        id: Snowflake
        owner_id: Snowflake
        roles: { id: Snowflake; permissions: Permission[] }[]
        channels: { id: Snowflake; overrides: Override[] }[]
      }[]
    >`
      SELECT s.id, s.owner_id,
        (SELECT coalesce(json_agg(json_build_object('id', r.id::text, 'permissions', r.permissions)), '[]') FROM roles r WHERE r.server_id = s.id) AS roles,
        (SELECT coalesce(json_agg(json_build_object('id', c.id::text, 'overrides',
            (SELECT coalesce(json_agg(json_build_object('target_id', v.target_id::text, 'type', v.type, 'allow', v.allow, 'deny', v.deny)), '[]')
              FROM channel_overrides v WHERE v.channel_id = c.id))), '[]')
          FROM channels c WHERE c.id = ANY(${column(places, "channel_id")}::bigint[]) AND c.server_id = s.id AND c.read_receipts_enabled) AS channels
      FROM servers s WHERE s.id = ANY(${[...new Set(column(places, "server_id"))]}::bigint[])`
    const rules = new Map<Snowflake, ViewingRules>()
    for (const { id, owner_id, roles, channels } of rows) {
      const server = {
        id,
        owner_id,
        roles: grantsOf(roles),
      }
      for (const channel of channels) rules.set(channel.id, { server, overrides: channel.overrides })
    }
    return rules
  },

  /**
   * Every member of the servers of some channels with how far they have received them, by their
   * roles where these decide what they see, and some individually. Cursors are looked up one by
   * one: there are as many as the service has users, and nobody reads all of them for one server.
   */
  async ofServers(
    asked: readonly (ServerChannel & { byRoles: boolean; named: readonly Snowflake[] })[],
  ): Promise<ReceiverRow[]> {
    if (asked.length === 0) return []
    return sql<ReceiverRow[]>`
      SELECT t.channel_id, t.roles, t.named, string_agg(int8send(t.user_id) || float8send(t.since) || float8send(greatest(t.since, t.received, t.read)), '') AS members
      FROM (
        SELECT k.channel_id, m.user_id, m.user_id = ANY(k.named) AS named, CASE WHEN k.by_roles OR m.user_id = ANY(k.named) THEN m.roles ELSE '{}' END AS roles,
          coalesce(${rankOf(sql, "m.since_id")}, ${rankAfter(sql, "((m.joined_at + 1) * 1000 - 1)")}) AS since,
          (SELECT ${rankAfter(sql, "d.guild_ms")} FROM deliveries d WHERE d.user_id = m.user_id) AS received, ${rankOf(sql, "r.visible_id")} AS read
        FROM (
          SELECT channel_id, server_id, by_roles, named::bigint[] AS named
          FROM unnest(${column(asked, "channel_id")}::bigint[], ${column(asked, "server_id")}::bigint[], ${column(asked, "byRoles")}::boolean[],
            ${asked.map(({ named }) => `{${named.join(",")}}`)}::text[]) AS a (channel_id, server_id, by_roles, named) OFFSET 0) AS k
        JOIN members m ON m.server_id = k.server_id
        LEFT JOIN read_states r ON r.channel_id = k.channel_id AND r.user_id = m.user_id) AS t
      GROUP BY t.channel_id, t.named, t.roles`
  },

  /**
   * The two users of each DM. While one has blocked the other, only what they had read shows how
   * far they received: that they are connected is private. Each pair is looked up by itself: nobody
   * reads all blocks for one pair.
   */
  async ofDirects(channels: readonly Snowflake[]): Promise<ReceiverRow[]> {
    if (channels.length === 0) return []
    return sql<ReceiverRow[]>`
      SELECT t.id AS channel_id, '{}'::bigint[] AS roles, false AS named,
        string_agg(int8send(t.user_id) || float8send(0) || float8send(greatest(0, ${rankAfter(sql, "(CASE WHEN t.is_shut THEN NULL ELSE d.direct_ms END)")}::float8, ${rankOf(sql, "r.visible_id")}::float8)), '') AS members
      FROM (
        SELECT c.id, unnest(ARRAY[c.user_id, c.other_id]) AS user_id,
          (SELECT b.status FROM relationships b WHERE b.user_id = c.user_id AND b.other_id = c.other_id) IS NOT DISTINCT FROM 'blocked'
            OR (SELECT b.status FROM relationships b WHERE b.user_id = c.other_id AND b.other_id = c.user_id) IS NOT DISTINCT FROM 'blocked' AS is_shut
        FROM direct_channels c WHERE c.id = ANY(${[...channels]}::bigint[]) AND c.other_id IS NOT NULL) AS t
      LEFT JOIN deliveries d ON d.user_id = t.user_id
      LEFT JOIN read_states r ON r.channel_id = t.id AND r.user_id = t.user_id
      GROUP BY t.id`
  },
})
