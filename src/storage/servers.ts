import type { Snowflake } from "../contract/fields.ts"
import type { Channel } from "../contract/channels.ts"
import type { Permission } from "../contract/permissions.ts"
import type { Server } from "../contract/servers.ts"
import { channelObject } from "../domain/channels.ts"
import type { Override } from "../domain/permissions.ts"
import { shardOf } from "../domain/snowflake.ts"
import type { ChannelState, MemberState, RoleState, ServerState } from "../domain/states.ts"
import type { ChannelRow } from "./channels.ts"
import type { Sql } from "./database.ts"
import type { OverrideRow } from "./overrides.ts"
import { voiceStatesOf } from "./voice.ts"
import { column, defineWrite } from "./write.ts"

type ServerRow = Server
type RoleRow = Omit<RoleState, "permissions"> & { server_id: Snowflake; permissions: Permission[] }

export const insertServer = defineWrite<ServerRow>(
  "insertServer",
  (sql, rows) => sql`
    INSERT INTO servers (id, name, description, owner_id, member_count, created_at)
    SELECT * FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "name")}::text[], ${column(rows, "description")}::text[],
      ${column(rows, "owner_id")}::bigint[], ${column(rows, "member_count")}::int[], ${column(rows, "created_at")}::bigint[])`,
)

/** The server with its channels, members, roles and invites; its messages are purged by a job. */
export const deleteServer = defineWrite<{ id: Snowflake }>(
  "deleteServer",
  (sql, rows) => sql`
    DELETE FROM servers WHERE id = ANY(${column(rows, "id")}::bigint[])`,
)

export const setMemberCount = defineWrite<{ id: Snowflake; member_count: number }>("setMemberCount", (sql, rows) => {
  // The last count of a server wins; a batch may hold many joins of one.
  const last = [...new Map(rows.map(row => [row.id, row])).values()]
  return sql`
      UPDATE servers SET member_count = t.member_count
      FROM unnest(${column(last, "id")}::bigint[], ${column(last, "member_count")}::int[]) AS t (id, member_count) WHERE servers.id = t.id`
})

export const insertRole = defineWrite<RoleState & { server_id: Snowflake }>(
  "insertRole",
  (sql, rows) => sql`
    INSERT INTO roles (id, server_id, name, color, position, hoist, mentionable, permissions)
    SELECT r.id, r.server_id, r.name, r.color, r.position, r.hoist, r.mentionable, ARRAY(SELECT jsonb_array_elements_text(r.permissions::jsonb))
    FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "server_id")}::bigint[], ${column(rows, "name")}::text[], ${column(rows, "color")}::text[],
      ${column(rows, "position")}::int[], ${column(rows, "hoist")}::text[]::boolean[], ${column(rows, "mentionable")}::text[]::boolean[],
      ${rows.map(row => JSON.stringify([...row.permissions]))}::text[]) AS r (id, server_id, name, color, position, hoist, mentionable, permissions)`,
)

export const updateRole = defineWrite<RoleState>("updateRole", (sql, rows) => {
  const last = [...new Map(rows.map(row => [row.id, row])).values()]
  return sql`
    UPDATE roles SET name = r.name, color = r.color, position = r.position, hoist = r.hoist, mentionable = r.mentionable,
      permissions = ARRAY(SELECT jsonb_array_elements_text(r.permissions::jsonb))
    FROM unnest(${column(last, "id")}::bigint[], ${column(last, "name")}::text[], ${column(last, "color")}::text[], ${column(last, "position")}::int[],
      ${column(last, "hoist")}::text[]::boolean[], ${column(last, "mentionable")}::text[]::boolean[],
      ${last.map(row => JSON.stringify([...row.permissions]))}::text[]) AS r (id, name, color, position, hoist, mentionable, permissions)
    WHERE roles.id = r.id`
})

/** Members' rows go on naming it: that is looked over when they are read, and ids are never used twice. */
export const deleteRole = defineWrite<{ id: Snowflake }>(
  "deleteRole",
  (sql, rows) => sql`
    WITH overrides AS (DELETE FROM channel_overrides WHERE target_id = ANY(${column(rows, "id")}::bigint[]))
    DELETE FROM roles WHERE id = ANY(${column(rows, "id")}::bigint[])`,
)

export const setMemberRoles = defineWrite<{ server_id: Snowflake; user_id: Snowflake; roles: readonly Snowflake[] }>(
  "setMemberRoles",
  (sql, rows) => {
    const last = [...new Map(rows.map(row => [`${row.server_id}:${row.user_id}`, row])).values()]
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
    INSERT INTO members (server_id, user_id, joined_at, temporary)
    SELECT * FROM unnest(${column(rows, "server_id")}::bigint[], ${column(rows, "user_id")}::bigint[], ${column(rows, "joined_at")}::bigint[],
      ${column(rows, "temporary")}::text[]::boolean[])`,
)

export const deleteMember = defineWrite<{ server_id: Snowflake; user_id: Snowflake }>(
  "deleteMember",
  (sql, rows) => sql`
    DELETE FROM members USING unnest(${column(rows, "server_id")}::bigint[], ${column(rows, "user_id")}::bigint[]) AS t (server_id, user_id)
    WHERE members.server_id = t.server_id AND members.user_id = t.user_id`,
)

const toRole = (row: RoleRow): RoleState => ({ ...row, permissions: new Set(row.permissions) })

/** What a worker needs of a server whose events it sends out: names for READY, and the rules that decide who receives. */
export interface ServerOutline {
  id: Snowflake
  name: string
  owner_id: Snowflake
  /** The newest row of the server's shard when this was so: it tells what all rows up to it say, and nothing else. */
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
  overrides: OverrideRow[]
}

function byChannel(rows: readonly OverrideRow[]): Map<Snowflake, readonly Override[]> {
  const found = new Map<Snowflake, Override[]>()
  for (const { channel_id, target_id, type, allow, deny } of rows) {
    const override = { target_id, type, allow, deny }
    const others = found.get(channel_id)
    if (others) others.push(override)
    else found.set(channel_id, [override])
  }
  return found
}

export const serversStorage = (sql: Sql) => ({
  /** The server's home as it wakes. */
  async load(id: Snowflake): Promise<ServerState | undefined> {
    const [[server], roles, channels, overrides, voice] = await Promise.all([
      sql<ServerRow[]>`SELECT * FROM servers WHERE id = ${id}`,
      sql<RoleRow[]>`SELECT * FROM roles WHERE server_id = ${id}`,
      sql<ChannelRow[]>`SELECT * FROM channels WHERE server_id = ${id}`,
      sql<OverrideRow[]>`SELECT * FROM channel_overrides WHERE server_id = ${id} ORDER BY target_id`,
      voiceStatesOf(sql, id),
    ])
    if (!server) return undefined
    return newServerState({
      server,
      roles: new Map(roles.map(role => [role.id, toRole(role)])),
      channels: new Map(channels.map(channel => [channel.id, channel])),
      overrides: byChannel(overrides),
      voice,
    })
  },

  /** One statement: all of it is as of the same moment, and `row` names that moment. */
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
        (SELECT coalesce(json_agg(json_build_object('channel_id', v.channel_id::text, 'target_id', v.target_id::text, 'type', v.type,
            'allow', v.allow, 'deny', v.deny) ORDER BY v.target_id), '[]')
          FROM channel_overrides v WHERE v.server_id = s.id) AS overrides
      FROM unnest(${asked}::bigint[], ${shards}::smallint[]) AS t (id, shard) JOIN servers s ON s.id = t.id`
    return rows.map(({ row, roles, channels, overrides, ...server }) => {
      const ofChannel = byChannel(overrides)
      return {
        ...server,
        row: Number(row),
        roles: new Map(roles.map(role => [role.id, { permissions: new Set(role.permissions) }])),
        channels: new Map(
          channels.map(channel => [
            channel.id,
            { channel: channelObject(channel), overrides: ofChannel.get(channel.id) ?? [] },
          ]),
        ),
      }
    })
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

  async ownedBy(user: Snowflake): Promise<number> {
    const [row] = await sql<{ count: number }[]>`SELECT count(*)::int AS count FROM servers WHERE owner_id = ${user}`
    return row!.count
  },

  async members(server: Snowflake, users: readonly Snowflake[]): Promise<Map<Snowflake, MemberState>> {
    const rows = await sql<MemberState[]>`
      SELECT user_id, joined_at, nickname, roles, timeout_until, timeout_reason, temporary FROM members WHERE server_id = ${server} AND user_id = ANY(${[...users]}::bigint[])`
    return new Map(rows.map(row => [row.user_id, row]))
  },
})

export function newServerState(parts: {
  server: Server
  roles: Map<Snowflake, RoleState>
  channels: Map<Snowflake, ChannelState>
  overrides?: Map<Snowflake, readonly Override[]>
  voice?: ServerState["voice"]
}): ServerState {
  const { server, roles, channels, overrides = new Map(), voice = new Map() } = parts
  return {
    id: server.id,
    name: server.name,
    description: server.description,
    icon_url: server.icon_url,
    owner_id: server.owner_id,
    member_count: server.member_count,
    default_channel_id: server.default_channel_id,
    verification_level: server.verification_level,
    default_message_notifications: server.default_message_notifications,
    public: server.public,
    category: server.category,
    roles,
    channels,
    overrides,
    members: new Map(),
    bans: new Map(),
    invites: new Map(),
    messages: new Map(),
    nonces: new Map(),
    lastPosts: new Map(),
    webhooks: new Map(),
    emojis: new Map(),
    stickerPacks: new Map(),
    typing: new Map(),
    voice,
    deleted: false,
  }
}
