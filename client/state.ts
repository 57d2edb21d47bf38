import type {
  ChannelResponse,
  EmojiResponse,
  Events,
  MemberResponse,
  MessageResponse,
  NotificationResponse,
  ReactionResponse,
  RelationshipListItem,
  RoleResponse,
  ServerResponse,
  Snowflake,
  StickerPackResponse,
  UserPublicResponse,
  VoiceParticipant,
} from "./contract.ts"

type EventName = keyof Events
type EventData<N extends EventName> = Events[N]

/** A member of a server, as far as a client shows one. */
export type KnownMember = Pick<
  MemberResponse,
  "username" | "avatar_url" | "badges" | "bot" | "roles" | "nickname" | "timeout_until"
>

/** The newest page of a channel and what came after it. `floor`: older messages were not read; 0: there are none. */
export interface History {
  floor: bigint
  readonly messages: Map<Snowflake, MessageResponse>
}

export interface KnownServer {
  facts: ServerResponse
  readonly channels: Map<Snowflake, ChannelResponse>
  readonly roles: Map<Snowflake, RoleResponse>
  /** The first 1,000 by their ids, and who has come since. */
  readonly members: Map<Snowflake, KnownMember>
  /** Whether those are all. */
  readonly hasAllMembers: boolean
  /** Null: the user may not ban, so they are not told. */
  bans: Set<Snowflake> | null
  /** By channel; a channel without one is still to be read. */
  readonly histories: Map<Snowflake, History>
  /** By name; without their uploaders' names, of which events say nothing. */
  emojis: readonly EmojiResponse[]
  packs: readonly StickerPackResponse[]
  /** Who is in its voice channels, as far as the user may view them. */
  readonly voice: Map<Snowflake, KnownCall>
}

export type KnownCall = VoiceParticipant & { readonly channel_id: Snowflake }

/** What a GUILD_CREATE said of a server, kept current by events alone. */
export interface Outline {
  readonly channels: Map<Snowflake, Events["GUILD_CREATE"]["channels"][number]>
  readonly roles: Map<Snowflake, Events["GUILD_CREATE"]["roles"][number]>
}

/** What another is to the user. */
export type KnownRelationship = Pick<RelationshipListItem, "status" | "created_at" | "avatar_url" | "message"> & {
  readonly username: string | null
}

/** Whom it is with, and what was said in it. */
export interface KnownDirect {
  readonly recipient_id: Snowflake
  readonly recipient: UserPublicResponse | null
  readonly history: History | undefined
}

/** What a client keeps: begun by READY, filled by its first reads, kept current by events. */
export interface ClientState {
  user: Pick<UserPublicResponse, "id" | "username" | "avatar_url" | "badges"> | undefined
  /** Undefined: known, and still to be read. */
  servers: Map<Snowflake, KnownServer | undefined>
  outlines: Map<Snowflake, Outline>
  /** Of every server that the user is in. */
  names: Map<Snowflake, string>
  relationships: Map<Snowflake, KnownRelationship>
  /** DMs; without a history: still to be read. */
  directs: Map<Snowflake, KnownDirect>
  /** `channel user` of those who type. No read shows it. */
  typing: Set<string>
  /** The newest page, and what came after it. */
  notifications: Map<Snowflake, NotificationResponse>
  /**
   * What was last read or told of friends and members. A list says only the status; who has joined
   * since is known from their first change on, as is everybody in a server of more than 1,000 from the latest read on.
   */
  presences: Map<Snowflake, Omit<EventData<"PRESENCE_UPDATE">, "user_id">>
  /** By channel; only channels in which something is unread. */
  unread: Map<Snowflake, Unread>
}

export interface Unread {
  readonly count: number
  readonly mentions: number
}

export const emptyState = (): ClientState => ({
  user: undefined,
  servers: new Map(),
  outlines: new Map(),
  names: new Map(),
  relationships: new Map(),
  directs: new Map(),
  typing: new Set(),
  notifications: new Map(),
  presences: new Map(),
  unread: new Map(),
})

/**
 * What a client reads because of an event: friends and blocks, a whole server, its bans, or the messages of a channel that
 * it sees from now on, and who is in it.
 */
export type Need =
  | {
      readonly part: "relationships" | "notifications" | "unread" | "directs" | "presences"
      readonly server?: undefined
      readonly channel?: undefined
    }
  | { readonly part: "direct"; readonly server?: undefined; readonly channel: Snowflake }
  | { readonly part: "server" | "bans"; readonly server: Snowflake; readonly channel?: undefined }
  | { readonly part: "history" | "voice"; readonly server: Snowflake; readonly channel: Snowflake }

type Needs = readonly Need[]
const nothing: Needs = []
/** What is unread is the server's to count: what events add is a guess until it is read again, once for many of them. */
const unreadAgain: Needs = [{ part: "unread" }]

/** Every key of what a read shows: events have more. */
const serverKeys: Record<keyof ServerResponse, true> = {
  id: true,
  name: true,
  description: true,
  icon_url: true,
  owner_id: true,
  member_count: true,
  default_channel_id: true,
  verification_level: true,
  default_message_notifications: true,
  public: true,
  category: true,
  created_at: true,
}
const participantKeys: Record<keyof VoiceParticipant, true> = {
  user_id: true,
  self_mute: true,
  self_deaf: true,
  mute: true,
  deaf: true,
  suppress: true,
  self_video: true,
  self_stream: true,
}
const only = <K extends string, T extends Record<K, unknown>>(keys: Record<K, true>, from: T): Pick<T, K> =>
  Object.fromEntries(Object.keys(keys).map(key => [key, from[key as K]])) as Pick<T, K>

type Reducer<N extends EventName> = (state: ClientState, data: EventData<N>) => Needs

/**
 * What each event does to what a client keeps. A read may hold what an event says already, and events that came during a
 * read are said again after it; so every reducer can be repeated, as long as the order is kept.
 */
export const reducers: { readonly [N in EventName]: Reducer<N> } = {
  READY(state, { user: { id, username, avatar_url, badges }, guilds }) {
    Object.assign(state, emptyState(), { user: { id, username, avatar_url, badges } })
    for (const guild of guilds) {
      state.servers.set(guild.id, undefined)
      state.names.set(guild.id, guild.name)
    }
    return [
      { part: "relationships" },
      { part: "notifications" },
      { part: "unread" },
      { part: "directs" },
      ...guilds.map(guild => ({ part: "server", server: guild.id }) as const),
    ]
  },
  /** Presences are told once: what changed meanwhile is not told again. */
  RESUMED: () => [{ part: "presences" }],
  SESSION_POSITION: () => nothing,
  SECURITY_LOGOUT: () => nothing,

  USER_UPDATE(state, { id, username, avatar_url, badges }) {
    if (state.user?.id === id) state.user = { id, username, avatar_url, badges }
    const known = state.relationships.get(id)
    if (known) state.relationships.set(id, { ...known, username, avatar_url })
    for (const [key, direct] of state.directs)
      if (direct.recipient?.id === id)
        state.directs.set(key, { ...direct, recipient: { ...direct.recipient, username, avatar_url, badges } })
    for (const server of state.servers.values()) {
      const member = server?.members.get(id)
      if (member) server!.members.set(id, { ...member, username, avatar_url, badges })
      for (const { messages } of server?.histories.values() ?? [])
        for (const [key, message] of messages)
          if (message.author_id === id)
            messages.set(key, { ...message, author_username: username, author_badges: badges })
    }
    return nothing
  },
  NOTIFICATION_CREATE(state, notification) {
    state.notifications.set(notification.id, notification)
    return unreadAgain
  },
  NOTIFICATION_UPDATE(state, update) {
    const read = "all_read" in update ? undefined : "ids" in update ? update.ids : [update.id]
    for (const [id, notification] of state.notifications)
      if (!read || read.includes(id)) state.notifications.set(id, { ...notification, read: true })
    return unreadAgain
  },

  /** A client asks for them where it shows them. */
  NOTIFICATION_SETTINGS_UPDATE: () => nothing,

  GUILD_CREATE(state, { id, name, channels, roles }) {
    state.servers.set(id, undefined)
    state.names.set(id, name)
    state.outlines.set(id, { channels: byId(channels), roles: byId(roles) })
    return [{ part: "server", server: id }, ...unreadAgain]
  },
  GUILD_UPDATE(state, update) {
    const server = state.servers.get(update.id)
    if (state.names.has(update.id)) state.names.set(update.id, update.name)
    // What reads do not show is left out.
    if (server) server.facts = only(serverKeys, update)
    return bansOf(state, update.id)
  },
  GUILD_DELETE(state, { id }) {
    state.servers.delete(id)
    state.outlines.delete(id)
    state.names.delete(id)
    return unreadAgain
  },
  GUILD_MEMBER_ADD(state, { server_id, user_id, ...member }) {
    const server = state.servers.get(server_id)
    if (!server) return nothing
    const isNew = !server.members.has(user_id)
    server.members.set(user_id, memberOf(member))
    countMembers(server, isNew ? 1 : 0)
    return nothing
  },
  GUILD_MEMBER_REMOVE(state, { server_id, user }) {
    const server = state.servers.get(server_id)
    if (!server) return nothing
    server.members.delete(user.id)
    countMembers(server, -1)
    return nothing
  },
  GUILD_MEMBER_UPDATE(state, { server_id, user, roles, nickname, timeout_until }) {
    const members = state.servers.get(server_id)?.members
    const known = members?.get(user.id)
    if (known) members!.set(user.id, { ...known, roles, nickname, timeout_until })
    return bansOf(state, server_id)
  },
  /** Says again what the events have said, to those who ask. */
  GUILD_MEMBERS_CHUNK: () => nothing,
  GUILD_BAN_ADD(state, { server_id, user }) {
    state.servers.get(server_id)?.bans?.add(user.id)
    return nothing
  },
  GUILD_BAN_REMOVE(state, { server_id, user }) {
    state.servers.get(server_id)?.bans?.delete(user.id)
    return nothing
  },
  INVITE_CREATE: () => nothing,
  INVITE_DELETE: () => nothing,
  GUILD_ROLE_CREATE: (state, { server_id, role }) => setRole(state, server_id, role),
  GUILD_ROLE_UPDATE: (state, { server_id, role }) => setRole(state, server_id, role),
  GUILD_ROLE_DELETE(state, { server_id, role_id }) {
    const server = state.servers.get(server_id)
    server?.roles.delete(role_id)
    for (const [user, member] of server?.members ?? [])
      server!.members.set(user, { ...member, roles: member.roles.filter(role => role !== role_id) })
    state.outlines.get(server_id)?.roles.delete(role_id)
    return bansOf(state, server_id)
  },
  GUILD_EMOJIS_UPDATE(state, { server_id, emojis }) {
    const server = state.servers.get(server_id)
    if (server) server.emojis = emojis
    return nothing
  },
  GUILD_STICKERS_UPDATE(state, { server_id, sticker_packs }) {
    const server = state.servers.get(server_id)
    for (const pack of server ? sticker_packs : []) {
      const known = server!.packs.map(one => (one.id === pack.id ? pack : one))
      const packs = known.includes(pack) ? known : [...known, pack]
      server!.packs = packs.filter(({ sticker_count }) => sticker_count > 0)
    }
    return nothing
  },
  CHANNEL_CREATE(state, channel) {
    const { id, server_id, name, type, channel_type, position, recipient_id, recipient } = channel
    if (recipient_id !== null) {
      const known = state.directs.get(id)
      state.directs.set(id, { recipient_id, recipient, history: known?.history })
      return known?.history ? nothing : [{ part: "directs" }]
    }
    state.outlines.get(server_id)?.channels.set(id, { id, name, type, channel_type, position })
    const server = state.servers.get(server_id)
    if (!server) return nothing
    server.channels.set(id, channel)
    if (server.histories.has(id)) return nothing
    const where = { server: server_id, channel: id }
    const voice = isForVoice(channel) ? [{ part: "voice" as const, ...where }] : []
    return [{ part: "history", ...where }, ...voice, ...unreadAgain]
  },
  CHANNEL_UPDATE(state, channel) {
    const { id, server_id, name, type, channel_type, position } = channel
    const server = state.servers.get(server_id)
    const outline = state.outlines.get(server_id)
    if (outline?.channels.has(id)) outline.channels.set(id, { id, name, type, channel_type, position })
    if (server?.channels.has(id)) server.channels.set(id, channel)
    return nothing
  },
  CHANNEL_DELETE(state, { id, server_id }) {
    const server = state.servers.get(server_id)
    server?.channels.delete(id)
    server?.histories.delete(id)
    for (const [user, { channel_id }] of server?.voice ?? []) if (channel_id === id) server!.voice.delete(user)
    state.outlines.get(server_id)?.channels.delete(id)
    state.directs.delete(id)
    state.unread.delete(id)
    return nothing
  },
  VOICE_STATE_UPDATE(state, { server_id, channel_id, ...shown }) {
    const server = state.servers.get(server_id!)
    // Who moves to a channel that the user may not view is gone for them.
    if (channel_id !== null && server?.channels.has(channel_id))
      server.voice.set(shown.user_id, { ...only(participantKeys, shown), channel_id })
    else server?.voice.delete(shown.user_id)
    return nothing
  },
  VOICE_SERVER_UPDATE: () => nothing,
  /** Who manages webhooks reads them when they look at them. */
  WEBHOOKS_UPDATE: () => nothing,
  TYPING_START(state, { channel_id, user_id }) {
    state.typing.add(`${channel_id} ${user_id}`)
    return nothing
  },
  TYPING_STOP(state, { channel_id, user_id }) {
    state.typing.delete(`${channel_id} ${user_id}`)
    return nothing
  },
  PRESENCE_UPDATE(state, { user_id, ...presence }) {
    state.presences.set(user_id, presence)
    return nothing
  },
  MESSAGE_CREATE(state, message) {
    state.typing.delete(`${message.channel_id} ${message.author_id}`)
    setMessage(state, message)
    const { channel_id, author_id, webhook_id } = message
    if (author_id === state.user?.id && webhook_id === undefined) return nothing
    const { count, mentions } = state.unread.get(channel_id) ?? { count: 0, mentions: 0 }
    state.unread.set(channel_id, { count: count + 1, mentions })
    return unreadAgain
  },
  MESSAGE_UPDATE: (state, message) => setMessage(state, message),
  /** Who else has read what is asked for where it is shown. */
  MESSAGE_ACK: (state, { user_id }) => (user_id === state.user?.id ? unreadAgain : nothing),
  MESSAGE_DELETE: (state, { id, ...where }) => deleteMessages(state, { ids: [id], ...where }),
  MESSAGE_DELETE_BULK: (state, data) => deleteMessages(state, data),
  MESSAGE_REACTION_ADD: (state, data) => setReaction(state, data, true),
  MESSAGE_REACTION_REMOVE: (state, data) => setReaction(state, data, false),
  RELATIONSHIP_ADD(state, { user_id, status, created_at, username, avatar_url, presence, message = null }) {
    state.relationships.set(user_id, { status, created_at, username, avatar_url, message })
    if (presence) setPresences(state, [[user_id, presence.status]])
    return nothing
  },
  RELATIONSHIP_REMOVE(state, { user_id }) {
    state.relationships.delete(user_id)
    return nothing
  },
}

/** One event as the gateway client hands it on. */
export interface AnyEvent {
  readonly name: EventName
  readonly data: unknown
}

/** What the client has to read because of an event. */
export const reduce = (state: ClientState, { name, data }: AnyEvent): Needs =>
  (reducers[name] as (state: ClientState, data: never) => Needs)(state, data as never)

/** What is kept of a member that was listed or has come. */
export const memberOf = ({
  username,
  avatar_url,
  badges,
  bot,
  roles,
  nickname,
  timeout_until,
}: KnownMember): KnownMember => ({ username, avatar_url, badges, bot, roles, nickname, timeout_until })

type Status = EventData<"PRESENCE_UPDATE">["status"]

/** What lists say of who is there. */
export function setPresences({ presences }: ClientState, known: Iterable<readonly [Snowflake, Status]>): void {
  for (const [user, status] of known)
    presences.set(user, { custom_status: null, custom_emoji: null, ...presences.get(user), status })
}

/** Of a large server only GUILD_UPDATE and a read have the exact number. */
export function countMembers(server: KnownServer, change: -1 | 0 | 1): void {
  const { hasAllMembers, members, facts } = server
  server.facts = { ...facts, member_count: hasAllMembers ? members.size : facts.member_count + change }
}

export const isForVoice = ({ type }: Pick<ChannelResponse, "type">): boolean => type === "voice" || type === "stage"

const byId = <T extends { id: Snowflake }>(list: readonly T[]) => new Map(list.map(one => [one.id, one]))

function setRole(state: ClientState, server_id: Snowflake, role: RoleResponse): Needs {
  const { id, name, color, hoist, position } = role
  state.servers.get(server_id)?.roles.set(id, role)
  state.outlines.get(server_id)?.roles.set(id, { id, name, color, hoist, position })
  return bansOf(state, server_id)
}

/** What is kept of a channel's messages, in a server or outside. */
export function historyOf({ directs, servers }: ClientState, channel: Snowflake): History | undefined {
  const direct = directs.get(channel)
  if (direct) return direct.history
  for (const server of servers.values()) {
    const history = server?.histories.get(channel)
    if (history) return history
  }
  return undefined
}

/** Ids rise with time; as text a longer one is higher. */
export const isLater = (one: Snowflake, other: Snowflake): boolean =>
  one.length === other.length ? one > other : one.length > other.length

function setMessage(state: ClientState, message: MessageResponse): Needs {
  const history = historyOf(state, message.channel_id)
  if (!history || BigInt(message.id) < history.floor) return nothing
  // What the user reacted with no event says.
  const own = (history.messages.get(message.id)?.reactions ?? []).filter(({ me }) => me)
  const reactions = message.reactions.map(one => ({ ...one, me: own.some(known => isSameEmoji(known, one)) }))
  history.messages.set(message.id, { ...message, reactions })
  return nothing
}

type AnEmoji = Pick<ReactionResponse, "emoji" | "custom_emoji_id">
const isSameEmoji = (one: AnEmoji, other: AnEmoji): boolean =>
  (one.custom_emoji_id ?? one.emoji) === (other.custom_emoji_id ?? other.emoji)

/** A message after somebody has reacted to it, or taken that back. @param own the user whose `me` it has */
export function withReaction(
  message: MessageResponse,
  { user_id, emoji, url, is_custom, custom_emoji_id, count }: EventData<"MESSAGE_REACTION_ADD">,
  { isAdded, own }: { readonly isAdded: boolean; readonly own: Snowflake | undefined },
): MessageResponse {
  const known = message.reactions.find(one => isSameEmoji(one, { emoji, custom_emoji_id }))
  const me = user_id === own ? isAdded : (known?.me ?? false)
  const reactions = known
    ? message.reactions.flatMap(one => (one !== known ? [one] : count > 0 ? [{ ...one, count, me }] : []))
    : [...message.reactions, ...(count > 0 ? [{ emoji, count, me, url, is_custom, custom_emoji_id }] : [])]
  return { ...message, reactions }
}

function setReaction(state: ClientState, change: EventData<"MESSAGE_REACTION_ADD">, isAdded: boolean): Needs {
  const messages = historyOf(state, change.channel_id)?.messages
  const message = messages?.get(change.message_id)
  if (message) messages!.set(message.id, withReaction(message, change, { isAdded, own: state.user?.id }))
  return nothing
}

function deleteMessages(
  state: ClientState,
  { ids, channel_id }: { ids: readonly Snowflake[]; channel_id: Snowflake },
): Needs {
  const history = historyOf(state, channel_id)
  for (const id of ids) history?.messages.delete(id)
  return unreadAgain
}

export function mayBan(user: Snowflake, { facts, roles, members }: KnownServer): boolean {
  if (facts.owner_id === user) return true
  return (members.get(user)?.roles ?? []).some(id => {
    const granted = roles.get(id)?.permissions
    return granted?.["members.ban"] === true || granted?.["administrator"] === true
  })
}

/** A user who may ban from now on reads what they missed. */
function bansOf(state: ClientState, server_id: Snowflake): Needs {
  const server = state.servers.get(server_id)
  if (!server) return nothing
  if (!mayBan(state.user!.id, server)) server.bans = null
  else if (server.bans === null) return [{ part: "bans", server: server_id }]
  return nothing
}
