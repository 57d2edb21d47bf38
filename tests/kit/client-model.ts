import { isDeepStrictEqual } from "node:util"
import type { ReceivedEvent } from "../../client/gateway.ts"
import { ApiError } from "../../client/rest.ts"
import type { EventName } from "../../src/contract/contract.ts"
import type { Snowflake } from "../../src/contract/core/fields.ts"
import type { Notification } from "../../src/contract/accounts/notifications.ts"
import type { Server } from "../../src/contract/communities/servers.ts"
import {
  emptyState,
  isForVoice,
  mayBan,
  reduce,
  type ClientState,
  type History,
  type KnownCall,
  type KnownDirect,
  type KnownMember,
  type KnownRelationship,
  type KnownServer,
  type Need,
} from "./client-state.ts"
import type { Starling } from "./person.ts"
import { until } from "./until.ts"

const pageSize = 50

/** Undefined: refused, because it is not there or not for this user (any more). */
async function granted<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read
  } catch (error) {
    if (error instanceof ApiError && (error.status === 403 || error.status === 404)) return undefined
    throw error
  }
}

/** What a client reads when it starts, of one user, on any worker. */
export class Reads {
  readonly #rest: () => Starling

  constructor(rest: () => Starling) {
    this.#rest = rest
  }

  /** A whole server, unless it is refused or taken away meanwhile. */
  async server(user: Snowflake, id: Snowflake, listed?: Server): Promise<KnownServer | undefined> {
    const server_id = { server_id: id }
    const [facts, channels, roles, members, emojis, packs] = await Promise.all([
      listed ?? granted(this.#rest().getServer(server_id)),
      granted(this.#rest().listChannels(server_id)),
      granted(this.#rest().listRoles(server_id)),
      this.#members(id),
      granted(this.#rest().listEmojis(server_id)),
      granted(this.#rest().listStickers(server_id)),
    ])
    if (!facts || !channels || !roles || !members || !emojis || !packs) return undefined
    const server: KnownServer = {
      facts,
      channels: new Map(channels.map(channel => [channel.id, channel])),
      roles: new Map(roles.map(role => [role.id, role])),
      members,
      bans: null,
      emojis: emojis.map(emoji => ({ ...emoji, uploader_username: null })),
      packs,
      histories: new Map(),
      voice: new Map(),
    }
    const histories = await Promise.all(
      channels.map(async channel => [channel.id, await this.history(channel.id)] as const),
    )
    for (const [channel, history] of histories) if (history) server.histories.set(channel, history)
    for (const { id: channel } of channels.filter(isForVoice))
      for (const call of (await this.voice(channel)) ?? []) server.voice.set(call.user_id, call)
    server.bans = mayBan(user, server) ? await this.bans(id) : null
    return server
  }

  async relationships(): Promise<Map<Snowflake, KnownRelationship>> {
    const list = await this.#rest().listRelationships()
    return new Map(
      list.map(({ user_id, status, created_at, username, avatar_url, message }) => [
        user_id,
        { status, created_at, username, avatar_url, message },
      ]),
    )
  }

  async notifications(): Promise<Map<Snowflake, Notification>> {
    const { notifications } = await this.#rest().listNotifications({ limit: "100" })
    return new Map(notifications.map(notification => [notification.id, notification]))
  }

  async directs(): Promise<Map<Snowflake, KnownDirect>> {
    const list = await this.#rest().listDirectChannels()
    const known = await Promise.all(
      list.map(async ({ id, recipient_id }) => {
        const history = await this.history(id)
        return [id, { recipient_id: recipient_id!, history }] as const
      }),
    )
    return new Map(known)
  }

  async bans(server_id: Snowflake): Promise<Set<Snowflake> | null> {
    const bans = await granted(this.#rest().listBans({ server_id }))
    return bans ? new Set(bans.map(ban => ban.user_id)) : null
  }

  async voice(channel_id: Snowflake): Promise<KnownCall[] | undefined> {
    const info = await granted(this.#rest().getVoiceInfo({ channel_id }))
    return info?.participants.map(participant => ({ ...participant, channel_id }))
  }

  async history(channel_id: Snowflake): Promise<History | undefined> {
    const page = await granted(this.#rest().listMessages({ channel_id, limit: `${pageSize}` }))
    return (
      page && {
        floor: page.length < pageSize ? 0n : BigInt(page.at(-1)!.id),
        messages: new Map(page.map(message => [message.id, message])),
      }
    )
  }

  async #members(server_id: Snowflake): Promise<Map<Snowflake, KnownMember> | undefined> {
    const page = await granted(this.#rest().listMembers({ server_id, limit: "1000" }))
    return (
      page &&
      new Map(page.map(({ user_id, roles, nickname, timeout_until }) => [user_id, { roles, nickname, timeout_until }]))
    )
  }

  /** What a client would know that starts now. */
  async afresh(): Promise<ClientState> {
    const [{ id, username, avatar_url, badges }, list, relationships, notifications, directs] = await Promise.all([
      this.#rest().getMe(),
      this.#rest().listServers(),
      this.relationships(),
      this.notifications(),
      this.directs(),
    ])
    const servers = await Promise.all(list.map(async one => [one.id, await this.server(id, one.id, one)] as const))
    return {
      ...emptyState(),
      user: { id, username, avatar_url, badges },
      relationships,
      notifications,
      directs,
      servers: new Map(servers),
    }
  }
}

function serverOf({ data }: ReceivedEvent): Snowflake | undefined {
  const { server_id } = data as { server_id?: Snowflake | null }
  // Of a conversation outside servers.
  return server_id === "0" ? undefined : (server_id ?? undefined)
}

/** A client that keeps what it is told and reads what it has to, while events go on. */
export class ModelClient {
  readonly state: ClientState = emptyState()
  readonly log: ReceivedEvent[] = []
  readonly #reads: Reads
  /** Events of this name do not reach it. */
  readonly #deafTo: EventName | undefined
  #needs: Need[] = []
  #reading: Promise<void> | undefined
  #failure: unknown
  /** Counts READYs: what was asked for before the last one is of no use. */
  #beginnings = 0

  constructor(reads: Reads, deafTo?: EventName) {
    this.#reads = reads
    this.#deafTo = deafTo
  }

  receive(event: ReceivedEvent): void {
    if (event.name === this.#deafTo) return
    this.log.push(event)
    if (event.name === "READY") {
      this.#beginnings++
      this.#needs = []
    }
    this.#apply(event)
  }

  /** It has read whatever it had to. */
  async caughtUp(): Promise<void> {
    await until("a client has read what it had to", () => this.#reading === undefined, { timeoutMs: 60_000 })
    if (this.#failure !== undefined) throw new Error("a client could not read", { cause: this.#failure })
  }

  /** The latest events, as text; of one server and of the session only, if it is named. */
  tail(server?: Snowflake, count = 40): string {
    return this.log
      .filter(event => server === undefined || (serverOf(event) ?? server) === server)
      .slice(-count)
      .map(({ s, name, data }) => `  ${s} ${name} ${JSON.stringify(data).slice(0, 160)}`)
      .join("\n")
  }

  #apply(event: ReceivedEvent): void {
    for (const need of reduce(this.state, event)) {
      const isAsked = this.#needs.some(other => JSON.stringify(other) === JSON.stringify(need))
      if (!isAsked) this.#needs.push(need)
    }
    if (this.#needs.length > 0) this.#reading ??= this.#readAll()
  }

  async #readAll(): Promise<void> {
    try {
      for (let need = this.#needs.shift(); need; need = this.#needs.shift()) await this.#read(need)
    } catch (error) {
      this.#failure = error
    } finally {
      this.#reading = undefined
    }
  }

  /** What came of the server while it was read may be newer than the answer: it is said again. */
  async #read(need: Need): Promise<void> {
    const [from, beginning] = [this.log.length, this.#beginnings]
    const put = await this.#answer(need)
    if (beginning !== this.#beginnings) return
    put()
    for (const event of this.log.slice(from))
      if (serverOf(event) === need.server || event.name === "USER_UPDATE") this.#apply(event)
  }

  async #answer(need: Need): Promise<() => void> {
    const { servers, user } = this.state
    if (need.part === "relationships") {
      const relationships = await this.#reads.relationships()
      return () => {
        this.state.relationships = relationships
      }
    }
    if (need.part === "notifications") {
      const notifications = await this.#reads.notifications()
      return () => {
        this.state.notifications = notifications
      }
    }
    if (need.part === "directs") {
      const directs = await this.#reads.directs()
      return () => {
        this.state.directs = directs
      }
    }
    if (need.part === "server") {
      const server = await this.#reads.server(user!.id, need.server)
      return () => {
        if (servers.has(need.server)) servers.set(need.server, server)
      }
    }
    if (need.part === "bans") {
      const bans = await this.#reads.bans(need.server)
      return () => {
        const server = servers.get(need.server)
        if (server) server.bans = mayBan(user!.id, server) ? bans : null
      }
    }
    if (need.part === "voice") {
      const calls = await this.#reads.voice(need.channel)
      return () => {
        const server = servers.get(need.server)
        if (!calls || !server?.channels.has(need.channel)) return
        for (const [user, { channel_id }] of server.voice) if (channel_id === need.channel) server.voice.delete(user)
        for (const call of calls) server.voice.set(call.user_id, call)
      }
    }
    const history = await this.#reads.history(need.channel)
    return () => {
      const server = servers.get(need.server)
      if (history && server?.channels.has(need.channel)) server.histories.set(need.channel, history)
    }
  }
}

const sorted = <K extends string, V, W>(map: ReadonlyMap<K, V>, shown: (value: V, key: K) => W): Record<string, W> =>
  Object.fromEntries([...map].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([key, value]) => [key, shown(value, key)]))

/** Where two plain values differ, as text. */
export function differences(told: unknown, read: unknown, path = ""): string[] {
  if (isDeepStrictEqual(told, read)) return []
  if (!isRecord(told) || !isRecord(read)) {
    const shown = (value: unknown) => (value === undefined ? "nothing" : JSON.stringify(value).slice(0, 200))
    return [`${path}: told ${shown(told)}, read ${shown(read)}`]
  }
  const keys = new Set([...Object.keys(told), ...Object.keys(read)])
  return [...keys].flatMap(key => differences(told[key], read[key], `${path}/${key}`))
}
const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null

/** Two states as plain values: equal if the client knows what its reads show. */
export function compared(told: ClientState, read: ClientState): { told: unknown; read: unknown } {
  const shown = (state: ClientState, other: ClientState) => ({
    user: state.user,
    relationships: sorted(state.relationships, known => known),
    notifications: sorted(state.notifications, known => known),
    // The other user of a DM may be called otherwise by now: that is told to friends and in servers.
    directs: sorted(state.directs, ({ recipient_id, history }, id) => {
      const floor = other.directs.get(id)?.history?.floor ?? 0n
      const messages = new Map([...(history?.messages ?? [])].filter(([message]) => BigInt(message) >= floor))
      return {
        recipient_id,
        messages: sorted(messages, ({ author_id, content, edited_at }) => ({ author_id, content, edited_at })),
      }
    }),
    servers: sorted(state.servers, (server, id) => {
      if (!server) return "not read"
      const { channels, roles, members, bans, emojis, packs, histories, voice } = server
      const facts = state === told ? { ...server.facts, member_count: members.size } : server.facts
      const floorOf = (channel: Snowflake) => other.servers.get(id)?.histories.get(channel)?.floor ?? 0n
      return {
        facts,
        channels: sorted(channels, channel => channel),
        roles: sorted(roles, role => role),
        members: sorted(members, member => ({ ...member, roles: member.roles.toSorted() })),
        bans: bans && [...bans].toSorted(),
        emojis,
        packs,
        voice: sorted(voice, call => call),
        // Who has read a message, the user too, is asked for where it is shown.
        messages: sorted(histories, ({ messages }, channel) =>
          sorted(new Map([...messages].filter(([message]) => BigInt(message) >= floorOf(channel))), message => ({
            ...message,
            read: false,
            read_by: [],
            read_count: 0,
            delivery_count: 0,
            status: "sent",
            // What the user has voted for no event says either.
            poll_results: message.poll_results && { ...message.poll_results, user_voted: false, user_votes: [] },
          })),
        ),
        outline: outlineOf(state, told, id),
      }
    }),
  })
  return { told: shown(told, read), read: shown(read, told) }
}

/** What the client was told by GUILD_CREATE and later events; beside it what it should have been told. */
function outlineOf(state: ClientState, told: ClientState, id: Snowflake): unknown {
  const outline = told.outlines.get(id)
  if (!outline) return undefined
  const { channels, roles } = state === told ? outline : state.servers.get(id)!
  return {
    channels: sorted(channels, ({ id: channel, name, type, channel_type, position }) => ({
      id: channel,
      name,
      type,
      channel_type,
      position,
    })),
    roles: sorted(roles, ({ id: role, name, color, hoist, position }) => ({ id: role, name, color, hoist, position })),
  }
}
