import { permissionNames, type Permission } from "../../contract/core/permissions.ts"
import type { Role } from "../../contract/communities/roles.ts"
import type { Guild, Member, Server, ServerUpdate } from "../../contract/communities/servers.ts"
import { avatarPath } from "../../contract/accounts/users.ts"
import { visibleChannels, type ChannelState } from "../core/channels.ts"
import type { Override } from "../core/overrides.ts"
import type { Holder } from "../core/permissions.ts"
import { secondsOf } from "../core/snowflake.ts"
import type { VoiceState } from "../voice/voice.ts"
import type { Actor } from "../accounts/accounts.ts"
import type { AutomodRule } from "../../contract/communities/automod.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { Facts } from "../core/facts.ts"

/**
 * What every turn in the home of channels needs: settings, roles, channels. A DM or notes channel
 * is a home of its own: one that holds nothing but itself, and whose members are its participants.
 */
export interface ServerState {
  id: Snowflake
  /** The participants of a conversation; null: it is a server. */
  participants: readonly Snowflake[] | null
  name: string
  description: string | null
  icon_url: string | null
  owner_id: Snowflake
  member_count: number
  default_channel_id: Snowflake | null
  verification_level: number
  default_message_notifications: number
  public: boolean
  category: string | null
  roles: Map<Snowflake, RoleState>
  channels: Map<Snowflake, ChannelState>
  /** What channels allow or deny roles and members; absent: nothing. */
  overrides: Map<Snowflake, readonly Override[]>
  /**
   * The rules of its auto-moderation, in the order in which they are looked at. Each is replaced,
   * never changed.
   */
  automod: readonly AutomodRule[]
  /** Everybody who is in a voice channel. */
  voice: Map<Snowflake, VoiceState>
  deleted: boolean
  /**
   * What the subjects keep in memory: members, messages and the like, only those that commands
   * needed.
   */
  readonly facts: Facts
}

/** The settings of a server that its owner and its managers decide. */
export type ServerSettings = Pick<
  ServerState,
  "name" | "description" | "owner_id" | "default_channel_id" | "default_message_notifications" | "public" | "category"
>

export interface RoleState {
  id: Snowflake
  name: string
  color: string
  position: number
  hoist: boolean
  mentionable: boolean
  permissions: ReadonlySet<Permission>
  /** The bot whose own it is, and with whose membership it ends. */
  bot_id?: Snowflake | null
}

/** The role of all members of a server, or of those in a conversation outside servers: it bears its home's id. */
export const everyoneRole = (home: Snowflake, permissions: ReadonlySet<Permission>): RoleState => ({
  id: home,
  name: "@everyone",
  color: "#000000",
  position: 0,
  hoist: false,
  mentionable: false,
  permissions,
})

export interface MemberState {
  user_id: Snowflake
  joined_at: number
  nickname: string | null
  /** Assigned roles, without `@everyone`. */
  roles: readonly Snowflake[]
  /** Unix seconds. */
  timeout_until: number | null
  timeout_reason: string | null
  /** The membership ends with the user's last session, unless they were given a role. */
  temporary: boolean
  /** The id that was made as the user joined; null: it was not recorded. */
  since_id?: Snowflake | null
}

/** The end of a member's time-out in Unix seconds, and its reason. */
export type TimeoutState = Pick<MemberState, "timeout_reason"> & { timeout_until: number }

export interface BanState {
  user_id: Snowflake
  reason: string
  banned_by: Snowflake
  banned_at: number
}

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

/** A server as a new member's sessions receive it, with the channels that they may view. */
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
  ...(typeof role.bot_id === "string" && { bot_id: role.bot_id }),
})

/** A user who has just joined. */
export const newMember = (user_id: string, joined_at: number): MemberState => ({
  user_id,
  joined_at,
  nickname: null,
  roles: [],
  timeout_until: null,
  timeout_reason: null,
  temporary: false,
})

/** A member as others see them; `@everyone`'s role has the server's id. */
export const memberObject = (
  server: { readonly id: string; readonly roles: ReadonlyMap<string, unknown> },
  member: Readonly<MemberState>,
  user: Readonly<Actor>,
): Member => ({
  user_id: member.user_id,
  member_id: member.user_id,
  username: user.username,
  avatar_url: avatarPath(member.user_id),
  nickname: member.nickname,
  roles: shownRoles(server, member.roles),
  joined_at: member.joined_at,
  badges: [...user.badges],
  bot: user.bot,
  timeout_until: member.timeout_until,
  timeout_reason: member.timeout_reason,
})

/**
 * A member's roles as they are shown, `@everyone` among them. Rows may name roles that are gone;
 * ids are never used twice.
 */
export const shownRoles = (
  server: { readonly id: string; readonly roles: ReadonlyMap<string, unknown> },
  roles: readonly string[],
): string[] => [server.id, ...roles.filter(role => server.roles.has(role))]

/** A new state of a home of channels, with nothing in memory yet. */
export function newServerState(parts: {
  server: Server
  /** For a conversation outside servers. */
  participants?: ServerState["participants"]
  roles: Map<Snowflake, RoleState>
  channels: Map<Snowflake, ChannelState>
  overrides?: Map<Snowflake, readonly Override[]>
  voice?: ServerState["voice"]
  automod?: ServerState["automod"]
}): ServerState {
  const { server, participants = null, roles, channels } = parts
  const { overrides = new Map(), voice = new Map(), automod = [] } = parts
  return {
    id: server.id,
    participants,
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
    automod,
    voice,
    deleted: false,
    facts: new Facts(),
  }
}
