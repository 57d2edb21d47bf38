import type { Snowflake } from "../../contract/core/fields.ts"
import type { Channel } from "../../contract/communities/channels.ts"
import type { Permission } from "../../contract/core/permissions.ts"
import type { Server } from "../../contract/communities/servers.ts"
import { channelObject, type ChannelState } from "../../domain/core/channels.ts"
import type { Override } from "../../domain/core/overrides.ts"
import { grantsOf, type AccessRules } from "../../domain/core/permissions.ts"
import { shardOf } from "../../domain/core/snowflake.ts"
import {
  type MemberState,
  type RoleState,
  type ServerSettings,
  type ServerState,
  newServerState,
} from "../../domain/communities/servers.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import { automodRulesOf } from "./automod.ts"
import type { ChannelRow } from "./channels.ts"
import type { Sql, Statement } from "../core/database.ts"
import { quotaHolder } from "../accounts/bots.ts"
import { overridesByChannel, saidOf, type ReadOverrides } from "./overrides.ts"
import { voiceStatesOf } from "../voice/voice.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    servers: {
      userColumns: ["owner_id"],
      key: { id: "bigint" },
      given: [
        "id",
        "name",
        "description",
        "icon_url",
        "owner_id",
        "member_count",
        "default_channel_id",
        "verification_level",
        "default_message_notifications",
        "public",
        "category",
        "created_at",
      ],
      atPurge: "ended",
    },
    members: {
      userColumns: ["user_id"],
      key: { server_id: "bigint", user_id: "bigint" },
      given: [
        "server_id",
        "user_id",
        "joined_at",
        "nickname",
        "roles",
        "timeout_until",
        "timeout_reason",
        "temporary",
        "since_id",
      ],
      atPurge: "ended",
    },
  },
  others: {
    roles: {
      why: "They are a server's",
      columns: { bot_id: "The bot whose own the role is; it goes with the bot" },
    },
  },
}

type ServerRow = Server
type RoleRow = Omit<RoleState, "permissions"> & { server_id: Snowflake; permissions: Permission[] }

export const insertServer = defineWrite<ServerRow>(
  "insertServer",
  (sql, rows) => sql`
    INSERT INTO servers (id, name, description, owner_id, member_count, created_at)
    SELECT * FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "name")}::text[], ${column(rows, "description")}::text[],
      ${column(rows, "owner_id")}::bigint[], ${column(rows, "member_count")}::int[], ${column(rows, "created_at")}::bigint[])`,
)

/** The settings of a server that one statement changes, and its owner. */
export const updateServer = defineWrite<ServerSettings & { id: Snowflake }>("updateServer", (sql, rows) => {
  const last = lastOf(rows, row => row.id)
  return sql`
    UPDATE servers SET name = t.name, description = t.description, owner_id = t.owner_id, default_channel_id = t.default_channel_id,
      default_message_notifications = t.default_message_notifications, public = t.public, category = t.category
    FROM unnest(${column(last, "id")}::bigint[], ${column(last, "name")}::text[], ${column(last, "description")}::text[],
      ${column(last, "owner_id")}::bigint[], ${column(last, "default_channel_id")}::bigint[],
      ${column(last, "default_message_notifications")}::int[], ${column(last, "public")}::text[]::boolean[], ${column(last, "category")}::text[])
      AS t (id, name, description, owner_id, default_channel_id, default_message_notifications, public, category)
    WHERE servers.id = t.id`
})

/**
 * The server with its channels, voice states, roles and invites: all of it is bounded. A job
 * deletes the rest. Rows of members stay until then, and make nobody a member: a query about
 * memberships joins the server as well.
 */
export const deleteServer = defineWrite<{ id: Snowflake }>(
  "deleteServer",
  (sql, rows) => sql`
    DELETE FROM servers WHERE id = ANY(${column(rows, "id")}::bigint[])`,
)

export const setMemberCount = defineWrite<{ id: Snowflake; member_count: number }>("setMemberCount", (sql, rows) => {
  // The last count of a server wins; a batch may hold many joins of one.
  const last = lastOf(rows, row => row.id)
  return sql`
      UPDATE servers SET member_count = t.member_count
      FROM unnest(${column(last, "id")}::bigint[], ${column(last, "member_count")}::int[]) AS t (id, member_count) WHERE servers.id = t.id`
})

export const insertRole = defineWrite<RoleState & { server_id: Snowflake }>(
  "insertRole",
  (sql, rows) => sql`
    INSERT INTO roles (id, server_id, name, color, position, hoist, mentionable, permissions, bot_id)
    SELECT r.id, r.server_id, r.name, r.color, r.position, r.hoist, r.mentionable, ARRAY(SELECT jsonb_array_elements_text(r.permissions::jsonb)), r.bot_id
    FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "server_id")}::bigint[], ${column(rows, "name")}::text[], ${column(rows, "color")}::text[],
      ${column(rows, "position")}::int[], ${column(rows, "hoist")}::text[]::boolean[], ${column(rows, "mentionable")}::text[]::boolean[],
      ${rows.map(row => JSON.stringify([...row.permissions]))}::text[], ${rows.map(row => row.bot_id ?? null)}::bigint[])
      AS r (id, server_id, name, color, position, hoist, mentionable, permissions, bot_id)`,
)

export const updateRole = defineWrite<RoleState>("updateRole", (sql, rows) => {
  const last = lastOf(rows, row => row.id)
  return sql`
    UPDATE roles SET name = r.name, color = r.color, position = r.position, hoist = r.hoist, mentionable = r.mentionable,
      permissions = ARRAY(SELECT jsonb_array_elements_text(r.permissions::jsonb))
    FROM unnest(${column(last, "id")}::bigint[], ${column(last, "name")}::text[], ${column(last, "color")}::text[], ${column(last, "position")}::int[],
      ${column(last, "hoist")}::text[]::boolean[], ${column(last, "mentionable")}::text[]::boolean[],
      ${last.map(row => JSON.stringify([...row.permissions]))}::text[]) AS r (id, name, color, position, hoist, mentionable, permissions)
    WHERE roles.id = r.id`
})

/**
 * Rows of members still name the role. That is ignored when they are read, and ids are never used
 * twice.
 */
export const deleteRole = defineWrite<{ id: Snowflake }>(
  "deleteRole",
  (sql, rows) => sql`
    WITH overrides AS (DELETE FROM channel_overrides WHERE target_id = ANY(${column(rows, "id")}::bigint[]))
    DELETE FROM roles WHERE id = ANY(${column(rows, "id")}::bigint[])`,
)

export const setMemberRoles = defineWrite<{ server_id: Snowflake; user_id: Snowflake; roles: readonly Snowflake[] }>(
  "setMemberRoles",
  (sql, rows) => {
    const last = lastOf(rows, row => `${row.server_id}:${row.user_id}`)
    return sql`
      UPDATE members SET roles = ARRAY(SELECT jsonb_array_elements_text(t.roles::jsonb)::bigint)
      FROM unnest(${column(last, "server_id")}::bigint[], ${column(last, "user_id")}::bigint[], ${last.map(row => JSON.stringify(row.roles))}::text[])
        AS t (server_id, user_id, roles)
      WHERE members.server_id = t.server_id AND members.user_id = t.user_id`
  },
)

export const insertMember = defineWrite<MemberState & { server_id: Snowflake }>(
  "insertMember",
  (sql, rows) => sql`
    INSERT INTO members (server_id, user_id, joined_at, temporary, since_id)
    SELECT * FROM unnest(${column(rows, "server_id")}::bigint[], ${column(rows, "user_id")}::bigint[], ${column(rows, "joined_at")}::bigint[],
      ${column(rows, "temporary")}::text[]::boolean[], ${column(rows, "since_id")}::bigint[])`,
)

/** A user who is not a member is in no call, and receives nothing. */
export const deleteMember = defineWrite<{ server_id: Snowflake; user_id: Snowflake }>(
  "deleteMember",
  (sql, rows) => sql`
    WITH t AS MATERIALIZED (
      SELECT * FROM unnest(${column(rows, "server_id")}::bigint[], ${column(rows, "user_id")}::bigint[]) AS t (server_id, user_id)),
    calls AS (DELETE FROM voice_states v USING t WHERE v.server_id = t.server_id AND v.user_id = t.user_id),
    cursors AS (DELETE FROM deliveries d USING t WHERE d.home_id = t.server_id AND d.user_id = t.user_id)
    DELETE FROM members USING t WHERE members.server_id = t.server_id AND members.user_id = t.user_id`,
)

/**
 * Tables whose rows are not deleted with a server's own row: there may be too many for one
 * statement. Members are deleted late, because they show which servers left rows behind.
 * Notification settings come after them, since only members have such settings.
 */
export const tablesLeft = [
  "bans",
  "deliveries",
  "message_deletions",
  "audit_log",
  "automod_violations",
  "members",
  "notification_settings",
] as const

const toRole = (row: RoleRow): RoleState => ({ ...row, permissions: new Set(row.permissions) })

/**
 * What a worker needs of a server whose events it sends: names for READY, and the rules that decide
 * who receives them.
 */
export interface ServerOutline {
  id: Snowflake
  name: string
  owner_id: Snowflake
  /**
   * The newest row of the server's shard at that moment: the outline contains what all rows up to
   * it say, and nothing of later ones.
   */
  row: number
  roles: Map<Snowflake, { permissions: ReadonlySet<Permission> }>
  channels: Map<Snowflake, { channel: Channel; overrides: readonly Override[] }>
}

interface OutlineRow {
  id: Snowflake
  name: string
  owner_id: Snowflake
  row: string
  roles: { id: Snowflake; permissions: Permission[] }[]
  channels: ChannelState[]
  overrides: ReadOverrides[]
}

/** A user with their bots, or a bot with its owner and their other bots: whose servers count together. */
const together = (sql: Sql, user: Statement): Statement => sql`
  ARRAY(SELECT ${quotaHolder(sql, user)} UNION ALL SELECT id FROM users WHERE owner_id = ${quotaHolder(sql, user)})`

const countsStorage = (sql: Sql) => ({
  /** How many servers a user owns, together with their bots or the bot's owner, and how many they are in. */
  async countsOf(user: Snowflake): Promise<{ owned: number; joined: number }> {
    const [row] = await sql<{ owned: number; joined: number }[]>`
      SELECT (SELECT count(*)::int FROM servers WHERE owner_id = ANY(${together(sql, sql`${user}::bigint`)})) AS owned,
        (SELECT count(*)::int FROM members m JOIN servers s ON s.id = m.server_id WHERE m.user_id = ${user}) AS joined`
    return row!
  },

  /** In how many servers a user is whose owner is that of a server, or a bot of theirs. */
  async sharedWithOwner(user: Snowflake, server: Snowflake): Promise<number> {
    const [row] = await sql<{ count: number }[]>`
      SELECT count(m.server_id)::int AS count FROM servers o
        JOIN servers s ON s.owner_id = ANY(${together(sql, sql`o.owner_id`)})
        LEFT JOIN members m ON m.server_id = s.id AND m.user_id = ${user}
      WHERE o.id = ${server}`
    return row!.count
  },
})

export const serversStorage = (sql: Sql) => ({
  ...countsStorage(sql),

  /** The state with which a server's home begins. */
  async load(id: Snowflake): Promise<ServerState | undefined> {
    const [[server], roles, channels, overrides, voice, automod] = await Promise.all([
      sql<ServerRow[]>`SELECT * FROM servers WHERE id = ${id}`,
      sql<RoleRow[]>`SELECT * FROM roles WHERE server_id = ${id}`,
      sql<ChannelRow[]>`SELECT * FROM channels WHERE server_id = ${id}`,
      sql<ReadOverrides[]>`${saidOf(sql, sql`${id}`)}`,
      voiceStatesOf(sql, id),
      automodRulesOf(sql, id),
    ])
    if (!server) return undefined
    return newServerState({
      server,
      roles: new Map(roles.map(role => [role.id, toRole(role)])),
      channels: new Map(channels.map(channel => [channel.id, channel])),
      overrides: overridesByChannel(overrides),
      voice,
      automod,
    })
  },

  /**
   * About how many bytes the outline of each server takes to load; one that is gone is missing.
   * Arrays of flags are counted as they are stored.
   */
  async outlineBytes(ids: readonly Snowflake[]): Promise<ReadonlyMap<Snowflake, number>> {
    if (ids.length === 0) return new Map()
    const rows = await sql<{ id: Snowflake; bytes: number }[]>`
      SELECT s.id, (200
        + (SELECT coalesce(sum(60 + pg_column_size(r.permissions)), 0) FROM roles r WHERE r.server_id = s.id)
        + (SELECT coalesce(sum(400 + coalesce(octet_length(c.topic), 0)), 0) FROM channels c WHERE c.server_id = s.id)
        + (SELECT 60 * count(*) FROM channel_overrides v WHERE v.server_id = s.id))::float8 AS bytes
      FROM servers s WHERE s.id = ANY(${[...new Set(ids)]}::bigint[])`
    return new Map(rows.map(({ id, bytes }) => [id, bytes]))
  },

  /** One statement, so that everything is as of the same moment. `row` names that moment. */
  async outlines(ids: readonly Snowflake[]): Promise<ServerOutline[]> {
    if (ids.length === 0) return []
    const asked = [...new Set(ids)]
    const shards = asked.map(id => shardOf(id))
    const rows = await sql<OutlineRow[]>`
      SELECT s.id, s.name, s.owner_id,
        (SELECT coalesce(max(o.number), 0)::text FROM outbox o WHERE o.shard = t.shard) AS row,
        (SELECT coalesce(json_agg(json_build_object('id', r.id::text, 'permissions', r.permissions)), '[]') FROM roles r WHERE r.server_id = s.id) AS roles,
        (SELECT coalesce(json_agg(json_build_object('id', c.id::text, 'server_id', c.server_id::text, 'name', c.name, 'channel_type', c.channel_type,
            'topic', c.topic, 'position', c.position, 'category_id', c.category_id::text, 'nsfw', c.nsfw, 'slowmode_seconds', c.slowmode_seconds,
            'read_receipts_enabled', c.read_receipts_enabled, 'user_limit', c.user_limit, 'bitrate', c.bitrate, 'created_at', c.created_at)), '[]')
          FROM channels c WHERE c.server_id = s.id) AS channels,
        (SELECT coalesce(json_agg(ruled), '[]') FROM (${saidOf(sql, sql`s.id`)}) AS ruled) AS overrides
      FROM unnest(${asked}::bigint[], ${shards}::smallint[]) AS t (id, shard) JOIN servers s ON s.id = t.id`
    const outlines: ServerOutline[] = []
    for (const { row, roles, channels, overrides, ...server } of rows) {
      const ofChannel = overridesByChannel(overrides)
      outlines.push({
        ...server,
        row: Number(row),
        roles: grantsOf(roles),
        channels: new Map(
          channels.map(channel => [
            channel.id,
            { channel: channelObject(channel), overrides: ofChannel.get(channel.id) ?? [] },
          ]),
        ),
      })
    }
    return outlines
  },

  /** Who may do what in one channel, and its name: less than the outline of a server. */
  async rulesIn(
    server: Snowflake,
    channel: Snowflake,
  ): Promise<(AccessRules & { name: string; overrides: readonly Override[] }) | undefined> {
    const [row] = await sql<(Pick<OutlineRow, "id" | "owner_id" | "name" | "roles"> & Pick<ReadOverrides, "said">)[]>`
      SELECT s.id, s.owner_id, c.name,
        (SELECT coalesce(json_agg(json_build_object('id', r.id::text, 'permissions', r.permissions)), '[]') FROM roles r WHERE r.server_id = s.id) AS roles,
        (SELECT coalesce(json_agg(json_build_array(v.target_id::text, v.type, v.allow, v.deny)), '[]')
          FROM channel_overrides v WHERE v.channel_id = c.id) AS said
      FROM servers s JOIN channels c ON c.server_id = s.id WHERE s.id = ${server} AND c.id = ${channel}`
    if (!row) return undefined
    const { said, roles, ...rest } = row
    const overrides = overridesByChannel([{ channel_id: channel, said }]).get(channel)!
    return { ...rest, roles: grantsOf(roles), overrides }
  },

  async find(id: Snowflake): Promise<Server | undefined> {
    const [row] = await sql<ServerRow[]>`SELECT * FROM servers WHERE id = ${id}`
    return row
  },

  async ofUser(user: Snowflake): Promise<Server[]> {
    return sql<
      ServerRow[]
    >`SELECT s.* FROM members m JOIN servers s ON s.id = m.server_id WHERE m.user_id = ${user} ORDER BY lower(s.name), s.id`
  },

  /** Deletes some of the rows that a deleted server left. @returns how many rows */
  async purgeLeft(table: (typeof tablesLeft)[number], server: Snowflake, limit: number): Promise<number> {
    const of = sql(table === "deliveries" ? "home_id" : "server_id")
    const { count } = await sql`
      DELETE FROM ${sql(table)} WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM ${sql(table)} WHERE ${of} = ${server} LIMIT ${limit}))`
    return count
  },

  /**
   * The next servers that rows of members name, in the order of ids, and whether they are gone:
   * each is one look into an index.
   */
  async named(after: Snowflake, limit: number): Promise<{ id: Snowflake; is_gone: boolean }[]> {
    return sql<{ id: Snowflake; is_gone: boolean }[]>`
      WITH RECURSIVE named (id, place) AS (
        (SELECT server_id, 1 FROM members WHERE server_id > ${after} ORDER BY server_id LIMIT 1)
        UNION ALL
        SELECT following.server_id, place + 1
        FROM named, LATERAL (SELECT server_id FROM members WHERE server_id > named.id ORDER BY server_id LIMIT 1) AS following
        WHERE place < ${limit})
      SELECT id, NOT EXISTS (SELECT FROM servers s WHERE s.id = named.id) AS is_gone FROM named ORDER BY place`
  },

  /** The servers of roles; one that is gone has none. */
  async ofRoles(roles: readonly Snowflake[]): Promise<Map<Snowflake, Snowflake>> {
    const rows = await sql<{ id: Snowflake; server_id: Snowflake }[]>`
      SELECT id, server_id FROM roles WHERE id = ANY(${[...roles]}::bigint[])`
    return new Map(rows.map(({ id, server_id }) => [id, server_id]))
  },

  async members(server: Snowflake, users: readonly Snowflake[]): Promise<Map<Snowflake, MemberState>> {
    const rows = await sql<MemberState[]>`
      SELECT user_id, joined_at, nickname, roles, timeout_until, timeout_reason, temporary, since_id FROM members WHERE server_id = ${server} AND user_id = ANY(${[...users]}::bigint[])`
    return new Map(rows.map(row => [row.user_id, row]))
  },
})
