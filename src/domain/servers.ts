import { permissionNames } from "../contract/permissions.ts"
import type { Role } from "../contract/roles.ts"
import type { Guild, Member, Server, ServerUpdate } from "../contract/servers.ts"
import { avatarPath } from "../contract/users.ts"
import { visibleChannels } from "./channels.ts"
import type { Holder, Override } from "./permissions.ts"
import { secondsOf } from "./snowflake.ts"
import type { Actor, ChannelState, MemberState, RoleState, ServerState } from "./states.ts"

type ServerFacts = Pick<
  Readonly<ServerState>,
  | "id"
  | "name"
  | "description"
  | "icon_url"
  | "owner_id"
  | "member_count"
  | "default_channel_id"
  | "verification_level"
  | "default_message_notifications"
  | "public"
  | "category"
>

export const serverObject = (server: ServerFacts): Server => ({
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
  created_at: secondsOf(server.id),
})

/** A server that changed, as its members are told. */
export const serverUpdate = (server: ServerFacts): ServerUpdate => ({
  ...serverObject(server),
  server_id: server.id,
  guild_id: server.id,
  ...(server.icon_url === null ? {} : { icon: server.icon_url }),
})

/** A server as its new member's sessions get it, with the channels that he may view. */
export function guildObject(
  server: ServerFacts & {
    readonly roles: ReadonlyMap<string, Readonly<RoleState>>
    readonly channels: ReadonlyMap<string, Readonly<ChannelState>>
    readonly overrides: ReadonlyMap<string, readonly Override[]>
  },
  member: Holder,
): Guild {
  return {
    id: server.id,
    server_id: server.id,
    guild_id: server.id,
    name: server.name,
    owner_id: server.owner_id,
    member_count: server.member_count,
    ...(server.icon_url === null ? {} : { icon: server.icon_url }),
    channels: visibleChannels(server, member).map(({ id, name, channel_type, position }) => ({
      id,
      name,
      type: channel_type,
      channel_type,
      position,
    })),
    roles: [...server.roles.values()].map(({ id, name, color, hoist, position }) => ({
      id,
      name,
      color,
      hoist,
      position,
    })),
    members: [],
  }
}

export const roleObject = (server: { readonly id: string }, role: Readonly<RoleState>): Role => ({
  id: role.id,
  server_id: server.id,
  name: role.name,
  color: role.color,
  position: role.position,
  permissions: Object.fromEntries(permissionNames.map(name => [name, role.permissions.has(name)])),
  hoist: role.hoist,
  mentionable: role.mentionable,
  is_default: role.id === server.id,
})

/** Somebody who just came in. */
export const newMember = (user_id: string, joined_at: number): MemberState => ({
  user_id,
  joined_at,
  nickname: null,
  roles: [],
  timeout_until: null,
  timeout_reason: null,
  temporary: false,
})

/** A member as others see him; `@everyone`'s role has the server's id. */
export const memberObject = (
  server: { readonly id: string; readonly roles: ReadonlyMap<string, unknown> },
  member: Readonly<MemberState>,
  user: Readonly<Actor>,
): Member => ({
  user_id: member.user_id,
  member_id: member.user_id,
  username: user.username,
  avatar_url: user.bot ? null : avatarPath(member.user_id),
  nickname: member.nickname,
  roles: shownRoles(server, member.roles),
  joined_at: member.joined_at,
  badges: [...user.badges],
  bot: Boolean(user.bot),
  timeout_until: member.timeout_until,
  timeout_reason: member.timeout_reason,
})

/** A member's roles as they are shown, `@everyone` among them. Rows may name roles that are gone; ids are never used twice. */
export const shownRoles = (
  server: { readonly id: string; readonly roles: ReadonlyMap<string, unknown> },
  roles: readonly string[],
): string[] => [server.id, ...roles.filter(role => server.roles.has(role))]
