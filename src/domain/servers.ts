import type { Guild, Member, Server } from "../contract/servers.ts"
import { avatarPath } from "../contract/users.ts"
import { visibleChannels } from "./channels.ts"
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

/** A server as its new member's sessions get it. */
export function guildObject(
  server: ServerFacts & {
    readonly roles: ReadonlyMap<string, Omit<Readonly<RoleState>, "permissions">>
    readonly channels: ReadonlyMap<string, Readonly<ChannelState>>
  },
): Guild {
  return {
    id: server.id,
    server_id: server.id,
    guild_id: server.id,
    name: server.name,
    owner_id: server.owner_id,
    member_count: server.member_count,
    ...(server.icon_url === null ? {} : { icon: server.icon_url }),
    channels: visibleChannels(server).map(({ id, name, channel_type, position }) => ({
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

/** A member as others see him; `@everyone`'s role has the server's id. */
export const memberObject = (
  server: { readonly id: string },
  member: Readonly<MemberState>,
  user: Readonly<Actor>,
): Member => ({
  user_id: member.user_id,
  member_id: member.user_id,
  username: user.username,
  avatar_url: avatarPath(member.user_id),
  nickname: member.nickname,
  roles: [server.id, ...member.roles],
  joined_at: member.joined_at,
  badges: [...user.badges],
  timeout_until: null,
  timeout_reason: null,
})
