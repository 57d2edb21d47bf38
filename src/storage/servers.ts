import type { Snowflake } from "../contract/fields.ts"
import type { Permission } from "../contract/permissions.ts"
import type { Server } from "../contract/servers.ts"
import type { ChannelState, MemberState, RoleState, ServerState } from "../domain/states.ts"
import type { ChannelRow } from "./channels.ts"
import type { Sql } from "./database.ts"
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

export const insertMember = defineWrite<MemberState & { server_id: Snowflake }>(
  "insertMember",
  (sql, rows) => sql`
    INSERT INTO members (server_id, user_id, joined_at)
    SELECT * FROM unnest(${column(rows, "server_id")}::bigint[], ${column(rows, "user_id")}::bigint[], ${column(rows, "joined_at")}::bigint[])`,
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
  roles: Map<Snowflake, { permissions: ReadonlySet<Permission> }>
}

export const serversStorage = (sql: Sql) => ({
  /** The server's home as it wakes. */
  async load(id: Snowflake): Promise<ServerState | undefined> {
    const [[server], roles, channels] = await Promise.all([
      sql<ServerRow[]>`SELECT * FROM servers WHERE id = ${id}`,
      sql<RoleRow[]>`SELECT * FROM roles WHERE server_id = ${id}`,
      sql<ChannelRow[]>`SELECT * FROM channels WHERE server_id = ${id}`,
    ])
    if (!server) return undefined
    return newServerState({
      server,
      roles: new Map(roles.map(role => [role.id, toRole(role)])),
      channels: new Map(channels.map(channel => [channel.id, channel])),
    })
  },

  async outlines(ids: readonly Snowflake[]): Promise<ServerOutline[]> {
    if (ids.length === 0) return []
    const [servers, roles] = await Promise.all([
      sql<
        { id: Snowflake; name: string; owner_id: Snowflake }[]
      >`SELECT id, name, owner_id FROM servers WHERE id = ANY(${[...ids]}::bigint[])`,
      sql<
        { id: Snowflake; server_id: Snowflake; permissions: Permission[] }[]
      >`SELECT id, server_id, permissions FROM roles WHERE server_id = ANY(${[...ids]}::bigint[])`,
    ])
    const outlines = new Map<Snowflake, ServerOutline>(
      servers.map(server => [server.id, { ...server, roles: new Map() }]),
    )
    for (const role of roles)
      outlines.get(role.server_id)?.roles.set(role.id, { permissions: new Set(role.permissions) })
    return [...outlines.values()]
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
      SELECT user_id, joined_at, nickname, roles FROM members WHERE server_id = ${server} AND user_id = ANY(${[...users]}::bigint[])`
    return new Map(rows.map(row => [row.user_id, row]))
  },

  async bans(server: Snowflake, users: readonly Snowflake[]): Promise<Map<Snowflake, true>> {
    const rows = await sql<
      { user_id: Snowflake }[]
    >`SELECT user_id FROM bans WHERE server_id = ${server} AND user_id = ANY(${[...users]}::bigint[])`
    return new Map(rows.map(row => [row.user_id, true]))
  },
})

export function newServerState(parts: {
  server: Server
  roles: Map<Snowflake, RoleState>
  channels: Map<Snowflake, ChannelState>
}): ServerState {
  const { server, roles, channels } = parts
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
    members: new Map(),
    bans: new Map(),
    invites: new Map(),
    messages: new Map(),
    nonces: new Map(),
    lastPosts: new Map(),
    deleted: false,
  }
}
