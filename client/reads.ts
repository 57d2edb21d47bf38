/** What a client reads of the server when it begins, and because of events. */
import type { MemberResponse, NotificationResponse, Routes, ServerResponse, Snowflake } from "./contract.ts"
import { ApiError, type Named, type Typed } from "./rest.ts"
import {
  countMembers,
  emptyState,
  isForVoice,
  mayBan,
  memberOf,
  setPresences,
  type ClientState,
  type History,
  type KnownCall,
  type KnownDirect,
  type KnownMember,
  type KnownRelationship,
  type KnownServer,
  type Unread,
} from "./state.ts"

/** As much of a client as reading takes. */
export type ReadingClient = Named<
  Typed<
    Pick<
      Routes,
      | "getMe"
      | "getServer"
      | "getVoiceInfo"
      | "listBans"
      | "listChannels"
      | "listDirectChannels"
      | "listEmojis"
      | "listMembers"
      | "listMessages"
      | "listNotifications"
      | "listRelationships"
      | "listRoles"
      | "listServers"
      | "listStickers"
      | "listUnread"
    >
  >
>

const pageSize = 50
const membersPage = 1_000

/** What lists of friends and members say of who is there. */
export type Statuses = Map<Snowflake, MemberResponse["presence"]["status"]>

/** Undefined: refused, because it is not there or not for this user (any more). */
async function granted<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read
  } catch (error) {
    if (error instanceof ApiError && (error.status === 403 || error.status === 404)) return undefined
    throw error
  }
}

/** Reads of one user. Which histories it reads `isOpen` says. */
export class Reads {
  readonly #client: () => ReadingClient
  readonly #isOpen: (channel: Snowflake) => boolean

  constructor(client: () => ReadingClient, isOpen: (channel: Snowflake) => boolean = () => true) {
    this.#client = client
    this.#isOpen = isOpen
  }

  /** A whole server, unless it is refused or taken away meanwhile. @param statuses of its members are added to it */
  async server(
    user: Snowflake,
    id: Snowflake,
    { listed, statuses = new Map() }: { listed?: ServerResponse; statuses?: Statuses } = {},
  ): Promise<KnownServer | undefined> {
    const server_id = { server_id: id }
    const [facts, channels, roles, members, emojis, packs] = await Promise.all([
      listed ?? granted(this.#client().getServer(server_id)),
      granted(this.#client().listChannels(server_id)),
      granted(this.#client().listRoles(server_id)),
      this.#members(id, statuses),
      granted(this.#client().listEmojis(server_id)),
      granted(this.#client().listStickers(server_id)),
    ])
    if (!facts || !channels || !roles || !members || !emojis || !packs) return undefined
    const server: KnownServer = {
      facts,
      channels: new Map(channels.map(channel => [channel.id, channel])),
      roles: new Map(roles.map(role => [role.id, role])),
      members,
      hasAllMembers: members.size < membersPage,
      bans: null,
      emojis: emojis.map(emoji => ({ ...emoji, uploader_username: null })),
      packs,
      histories: new Map(),
      voice: new Map(),
    }
    countMembers(server, 0)
    const open = channels.filter(channel => this.#isOpen(channel.id))
    const histories = await Promise.all(
      open.map(async channel => [channel.id, await this.history(channel.id)] as const),
    )
    for (const [channel, history] of histories) if (history) server.histories.set(channel, history)
    for (const { id: channel } of channels.filter(isForVoice))
      for (const call of (await this.voice(channel)) ?? []) server.voice.set(call.user_id, call)
    server.bans = mayBan(user, server) ? await this.bans(id) : null
    return server
  }

  async relationships(statuses: Statuses = new Map()): Promise<Map<Snowflake, KnownRelationship>> {
    const list = await this.#client().listRelationships()
    for (const { user_id, presence } of list) if (presence) statuses.set(user_id, presence.status)
    return new Map(
      list.map(({ user_id, status, created_at, username, avatar_url, message }) => [
        user_id,
        { status, created_at, username, avatar_url, message },
      ]),
    )
  }

  /** Of friends and of the members of these servers. */
  async statuses(servers: readonly Snowflake[]): Promise<Statuses> {
    const statuses: Statuses = new Map()
    await this.relationships(statuses)
    for (const server of servers) await this.#members(server, statuses)
    return statuses
  }

  async notifications(): Promise<Map<Snowflake, NotificationResponse>> {
    const { notifications } = await this.#client().listNotifications({ limit: "100" })
    return new Map(notifications.map(notification => [notification.id, notification]))
  }

  async unread(): Promise<Map<Snowflake, Unread>> {
    const { unread_counts, mention_counts } = await this.#client().listUnread()
    return new Map(
      Object.entries(unread_counts).map(([channel, count]) => [
        channel,
        { count, mentions: mention_counts[channel] ?? 0 },
      ]),
    )
  }

  /** Histories of DMs that are open are read, others keep what `known` has of them. */
  async directs(known: ReadonlyMap<Snowflake, KnownDirect> = new Map()): Promise<Map<Snowflake, KnownDirect>> {
    const list = await this.#client().listDirectChannels()
    const directs = await Promise.all(
      list.map(async ({ id, recipient_id, recipient }) => {
        const history = this.#isOpen(id) ? await this.history(id) : known.get(id)?.history
        return [id, { recipient_id: recipient_id!, recipient, history }] as const
      }),
    )
    return new Map(directs)
  }

  async bans(server_id: Snowflake): Promise<Set<Snowflake> | null> {
    const bans = await granted(this.#client().listBans({ server_id }))
    return bans ? new Set(bans.map(ban => ban.user_id)) : null
  }

  async voice(channel_id: Snowflake): Promise<KnownCall[] | undefined> {
    const info = await granted(this.#client().getVoiceInfo({ channel_id }))
    return info?.participants.map(participant => ({ ...participant, channel_id }))
  }

  /** The newest page, or the one below a message. */
  async history(channel_id: Snowflake, before?: Snowflake): Promise<History | undefined> {
    const page = await granted(
      this.#client().listMessages({ channel_id, limit: `${pageSize}`, ...(before !== undefined && { before }) }),
    )
    return (
      page && {
        floor: page.length < pageSize ? 0n : BigInt(page.at(-1)!.id),
        messages: new Map(page.map(message => [message.id, message])),
      }
    )
  }

  async #members(server_id: Snowflake, statuses: Statuses): Promise<Map<Snowflake, KnownMember> | undefined> {
    const page = await granted(this.#client().listMembers({ server_id, limit: `${membersPage}` }))
    for (const { user_id, presence } of page ?? []) statuses.set(user_id, presence.status)
    return page && new Map(page.map(member => [member.user_id, memberOf(member)]))
  }

  /** What a client would know that starts now and opens everything. */
  async afresh(): Promise<ClientState> {
    const statuses: Statuses = new Map()
    const [{ id, username, avatar_url, badges }, list, relationships, notifications, directs, unread] =
      await Promise.all([
        this.#client().getMe(),
        this.#client().listServers(),
        this.relationships(statuses),
        this.notifications(),
        this.directs(),
        this.unread(),
      ])
    const servers = await Promise.all(
      list.map(async listed => [listed.id, await this.server(id, listed.id, { listed, statuses })] as const),
    )
    const state: ClientState = {
      ...emptyState(),
      user: { id, username, avatar_url, badges },
      relationships,
      notifications,
      directs,
      unread,
      servers: new Map(servers),
    }
    setPresences(state, statuses)
    return state
  }
}
