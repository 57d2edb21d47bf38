import type { Snowflake } from "../../contract/core/fields.ts"
import type { Permission } from "../../contract/core/permissions.ts"
import type { Override } from "../../domain/core/overrides.ts"
import { grantsOf, type AccessRules } from "../../domain/core/permissions.ts"
import { compareIds, epochMs } from "../../domain/core/snowflake.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column } from "../core/write.ts"
import { append } from "../../std/multi-map.ts"

export const personalData: PersonalData = {
  personal: {
    deliveries: {
      userColumns: ["user_id"],
      key: { user_id: "bigint", home_id: "bigint" },
      given: ["home_id", "user_id", "message_id"],
      atPurge: "erased",
    },
  },
}

/** The last message of a server or of a DM channel that a user has received. */
export interface DeliveryRow {
  readonly home_id: Snowflake
  readonly user_id: Snowflake
  readonly message_id: Snowflake
}

/** Whatever was made in one server or DM channel of a user by some moment: no id of it is higher. */
export interface ReceivedBefore {
  readonly home_id: Snowflake
  readonly is_direct: boolean
  readonly message_id: Snowflake
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

/** DM channels of one user that are looked at when a session begins. */
const maxDirectsLookedAt = 1_000

/** The DM channels of a user that are looked at when a session begins, as a table of `id`. */
export const directs = (sql: Sql, user: string) => {
  const own = sql.unsafe(user)
  return sql`(
    (SELECT id FROM direct_channels WHERE user_id = ${own} AND other_id IS NOT NULL LIMIT ${maxDirectsLookedAt})
    UNION ALL (SELECT id FROM direct_channels WHERE other_id = ${own} LIMIT ${maxDirectsLookedAt}))`
}

export const deliveriesStorage = (sql: Sql) => ({
  /**
   * Moves cursors forward; never back, so it does not matter which worker writes first, and no home
   * is asked. In the order of keys, as two workers may move the same ones. Users who have left do
   * not get a row.
   * @returns users for whom nothing was written, because others must not see that they are there
   */
  async move(rows: readonly DeliveryRow[]): Promise<Snowflake[]> {
    const moved = rows.toSorted((a, b) => compareIds(a.home_id, b.home_id) || compareIds(a.user_id, b.user_id))
    const hidden = await sql<{ user_id: Snowflake }[]>`
      WITH hidden AS MATERIALIZED (
        SELECT p.user_id FROM presences p
        WHERE p.user_id = ANY(${[...new Set(column(rows, "user_id"))]}::bigint[]) AND p.status IN ('invisible', 'offline')
      ),
      written AS (
        INSERT INTO deliveries AS d (home_id, user_id, message_id)
        SELECT t.home_id, t.user_id, t.message_id
        FROM unnest(${column(moved, "home_id")}::bigint[], ${column(moved, "user_id")}::bigint[], ${column(moved, "message_id")}::bigint[])
          WITH ORDINALITY AS t (home_id, user_id, message_id, place)
        WHERE t.user_id NOT IN (SELECT h.user_id FROM hidden h)
          AND (EXISTS (SELECT FROM members m WHERE m.server_id = t.home_id AND m.user_id = t.user_id)
            OR EXISTS (SELECT FROM direct_channels c WHERE c.id = t.home_id AND c.other_id IS NOT NULL AND t.user_id IN (c.user_id, c.other_id)))
        ORDER BY t.place
        ON CONFLICT (home_id, user_id) DO UPDATE SET message_id = excluded.message_id WHERE d.message_id < excluded.message_id
      )
      SELECT user_id FROM hidden`
    return hidden.map(({ user_id }) => user_id)
  },

  /**
   * How far everything is there by now in the servers and DM channels of some users. The newest row
   * of a shard's outbox names the last id that the shard had made: one look for each of them,
   * however many messages they hold.
   */
  async before(users: readonly Snowflake[]): Promise<Map<Snowflake, ReceivedBefore[]>> {
    const rows = await sql<(ReceivedBefore & { user_id: Snowflake })[]>`
      SELECT u.id AS user_id, h.home_id, h.is_direct, o.last_id AS message_id
      FROM unnest(${[...users]}::bigint[]) AS u (id)
      CROSS JOIN LATERAL (
        SELECT m.server_id AS home_id, false AS is_direct FROM members m WHERE m.user_id = u.id
        UNION ALL SELECT id, true FROM ${directs(sql, "u.id")} AS d) AS h
      CROSS JOIN LATERAL (
        SELECT last_id FROM outbox WHERE shard = ((h.home_id >> 12) & 1023)::smallint ORDER BY number DESC LIMIT 1) AS o`
    const found = new Map<Snowflake, ReceivedBefore[]>()
    for (const { user_id, ...received } of rows) append(found, user_id, received)
    return found
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
   * roles where these decide what they see, and some individually.
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
          ${rankOf(sql, "d.message_id")} AS received, ${rankOf(sql, "r.visible_id")} AS read
        FROM (
          SELECT channel_id, server_id, by_roles, named::bigint[] AS named
          FROM unnest(${column(asked, "channel_id")}::bigint[], ${column(asked, "server_id")}::bigint[], ${column(asked, "byRoles")}::boolean[],
            ${asked.map(({ named }) => `{${named.join(",")}}`)}::text[]) AS a (channel_id, server_id, by_roles, named) OFFSET 0) AS k
        JOIN members m ON m.server_id = k.server_id
        LEFT JOIN deliveries d ON d.home_id = k.server_id AND d.user_id = m.user_id
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
        string_agg(int8send(t.user_id) || float8send(0) || float8send(greatest(0, ${rankOf(sql, "(CASE WHEN t.is_shut THEN NULL ELSE d.message_id END)")}::float8, ${rankOf(sql, "r.visible_id")}::float8)), '') AS members
      FROM (
        SELECT c.id, unnest(ARRAY[c.user_id, c.other_id]) AS user_id,
          (SELECT b.status FROM relationships b WHERE b.user_id = c.user_id AND b.other_id = c.other_id) IS NOT DISTINCT FROM 'blocked'
            OR (SELECT b.status FROM relationships b WHERE b.user_id = c.other_id AND b.other_id = c.user_id) IS NOT DISTINCT FROM 'blocked' AS is_shut
        FROM direct_channels c WHERE c.id = ANY(${[...channels]}::bigint[]) AND c.other_id IS NOT NULL) AS t
      LEFT JOIN deliveries d ON d.home_id = t.id AND d.user_id = t.user_id
      LEFT JOIN read_states r ON r.channel_id = t.id AND r.user_id = t.user_id
      GROUP BY t.id`
  },
})
