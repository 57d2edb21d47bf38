import { waitMs } from "./backoff.ts"
import { intents, type Events, type MessageResponse, type Snowflake } from "./contract.ts"
import { GatewayError, type GatewayClient, type GatewayClose } from "./gateway.ts"
import { Reads, type ReadingClient, type Statuses } from "./reads.ts"
import type { Client } from "./rest.ts"
import {
  emptyState,
  historyOf,
  isLater,
  mayBan,
  reduce,
  setPresences,
  type AnyEvent,
  type ClientState,
  type History,
  type Need,
} from "./state.ts"

/**
 * What changed, as `subscribe` tells it: a part of the state, `server ID` (its facts, channels,
 * roles, members, voice) or `channel ID` (its messages and who types).
 */
export type Change =
  | "connection"
  | "user"
  | "servers"
  | "directs"
  | "relationships"
  | "notifications"
  | "presences"
  | "unread"
  | `server ${Snowflake}`
  | `channel ${Snowflake}`

/** `live`: what is shown is current. `returning`: it was, and the client is on its way back. */
export type Connection = "connecting" | "live" | "returning" | "closed"

export interface StoreOptions {
  readonly client: () => ReadingClient
  /** Read every server and the newest messages of every channel at once. Default: what is opened. */
  readonly everything?: boolean
  /** Between two reads of what is unread, at least. Default: 2 s. */
  readonly unreadEveryMs?: number
  /** Presences are read again so long after RESUMED at most, at random: many clients resume at once. Default: 10 s. */
  readonly presencesWithinMs?: number
  /** After a read that failed for good, before the next try; twice as long each time, up to a minute. Default: 2 s. */
  readonly readAgainMs?: number
  /** Somebody is shown as typing so long after they were last said to be. Default: 7 s. */
  readonly typingMs?: number
  /** As many messages of a channel are kept at least; older ones are read again. Default: 500. */
  readonly maxMessages?: number
  /** Told when something could not be read, after every retry of the client's. It is tried again. Default: a warning. */
  readonly onError?: (error: unknown) => void
}

/** The intents of all events that change what a store keeps. */
export const storeIntents =
  intents.GUILDS +
  intents.GUILD_MEMBERS +
  intents.GUILD_BANS +
  intents.GUILD_EMOJIS +
  intents.GUILD_VOICE_STATES +
  intents.GUILD_PRESENCES +
  intents.GUILD_MESSAGES +
  intents.GUILD_MESSAGE_REACTIONS +
  intents.GUILD_MESSAGE_TYPING +
  intents.DIRECT_MESSAGES +
  intents.DIRECT_MESSAGE_REACTIONS +
  intents.DIRECT_MESSAGE_TYPING

/**
 * What a user can see, kept current by events: servers, channels, members, messages, DMs,
 * relationships, notifications, presences and what is unread. It keeps:
 *   CLIENT6  Once nothing is being read, the state is what reading it afresh would show.
 *   CLIENT7  An event that arrives during a read is not lost: it is applied again after the read.
 *   CLIENT8  Only what was opened is read, and a channel keeps at most `maxMessages` and one page.
 */
export class Store {
  readonly state: ClientState = emptyState()
  readonly #options: StoreOptions
  readonly #reads: Reads
  readonly #openServers = new Set<Snowflake>()
  readonly #openChannels = new Set<Snowflake>()
  readonly #listeners = new Set<(changes: ReadonlySet<Change>) => void>()
  #changes = new Set<Change>()
  #connection: Connection = "connecting"

  readonly #needs: Need[] = []
  #reading: Promise<void> | undefined
  /** Reads that wait, by their part. */
  readonly #waiting = new Map<Need["part"], Timer>()
  /** What could not be read. */
  readonly #unreadable: Need[] = []
  #failures = 0
  #againTimer: Timer | undefined
  /** Until when each is shown. */
  readonly #typing = new Map<string, Timer>()
  #unreadReadAt = -Infinity
  #isUnreadKnown = false
  #isRestored = false
  /** Events since each read under way began. */
  readonly #overheard = new Set<AnyEvent[]>()
  /** Counts READYs: what was asked for before the last one is of no use. */
  #beginnings = 0

  constructor(options: StoreOptions) {
    this.#options = options
    this.#reads = new Reads(options.client, channel => this.#isOpen(channel))
  }

  get connection(): Connection {
    return this.#connection
  }

  /** Whether something is still being read, or will be. */
  get isReading(): boolean {
    return this.#reading !== undefined || this.#waiting.size > 0 || this.#unreadable.length > 0
  }

  /** Whether `state.unread` was read since READY; before, it says nothing. */
  get isUnreadKnown(): boolean {
    return this.#isUnreadKnown
  }

  /** Takes its events from there; call it before `connect`. The answer ends that. */
  follow(gateway: Pick<GatewayClient, "on" | "addIntents">): () => void {
    gateway.addIntents(storeIntents)
    const ends = [
      gateway.on("dispatch", event => this.receive(event)),
      gateway.on("ready", () => this.#setConnection("live")),
      gateway.on("resumed", () => this.#setConnection("live")),
      gateway.on("close", close => this.#lost(close)),
    ]
    return () => {
      for (const end of ends) end()
      for (const timer of [...this.#waiting.values(), ...this.#typing.values()]) clearTimeout(timer)
      this.#waiting.clear()
      this.#typing.clear()
      this.#forgetFailures()
    }
  }

  /**
   * Calls the listener with what changed, once for all changes of a moment. The answer ends that.
   * What it reads of the state must not be changed.
   */
  subscribe(listener: (changes: ReadonlySet<Change>) => void): () => void {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
    }
  }

  /**
   * Shows what was kept of an earlier connection, until READY says what is so now. Nothing is read
   * meanwhile. @returns whether it came in time
   */
  restore(state: ClientState): boolean {
    if (this.#beginnings > 0) return false
    Object.assign(this.state, state, { typing: new Set() })
    this.#isRestored = true
    this.#isUnreadKnown = true
    const histories = [...state.servers.values()].flatMap(server => [...(server?.histories.keys() ?? [])])
    for (const channel of [...histories, ...state.directs.keys()]) this.#tell(`channel ${channel}`)
    for (const server of state.servers.keys()) this.#tell(`server ${server}`)
    for (const change of ["connection", ...changesOf({ name: "READY", data: {} })] as const) this.#tell(change)
    return true
  }

  /** What is shown is of an earlier connection. */
  get isRestored(): boolean {
    return this.#isRestored
  }

  /** Reads a server and keeps it; open already: nothing happens. */
  openServer(id: Snowflake): void {
    if (this.#openServers.has(id)) return
    this.#openServers.add(id)
    if (this.state.servers.has(id)) this.#ask({ part: "server", server: id })
  }

  /** Reads the newest messages of a channel or DM, and keeps them. Its server is opened as well. */
  openChannel(id: Snowflake, server?: Snowflake): void {
    if (this.#openChannels.has(id)) return
    this.#openChannels.add(id)
    if (server === undefined) return this.#ask({ part: "direct", channel: id })
    this.openServer(server)
    // A read of the server that is under way may have read its channels already.
    if (this.state.servers.has(server)) this.#ask({ part: "history", server, channel: id })
  }

  /** Forgets the messages of a channel. */
  closeChannel(id: Snowflake): void {
    this.#openChannels.delete(id)
    for (const server of this.state.servers.values()) server?.histories.delete(id)
    const direct = this.state.directs.get(id)
    if (direct) this.state.directs.set(id, { ...direct, history: undefined })
    this.#tell(`channel ${id}`)
  }

  /** The messages of an open channel, oldest first; undefined: not read yet. */
  messages(channel: Snowflake): MessageResponse[] | undefined {
    const history = historyOf(this.state, channel)
    return history && [...history.messages.values()].toSorted((a, b) => (isLater(a.id, b.id) ? 1 : -1))
  }

  /** Shows a message that a request was answered with, before its event comes. */
  put(message: MessageResponse): void {
    const known = historyOf(this.state, message.channel_id)?.messages
    if (!known || known.has(message.id)) return
    known.set(message.id, message)
    this.#tell(`channel ${message.channel_id}`)
  }

  /** Whether an open channel has messages older than those that were read. */
  hasOlder(channel: Snowflake): boolean {
    return (historyOf(this.state, channel)?.floor ?? 0n) > 0n
  }

  /** Reads one page more of an open channel. @returns whether there was one */
  async readOlder(channel: Snowflake): Promise<boolean> {
    const history = historyOf(this.state, channel)
    if (!history || history.floor === 0n) return false
    const [floor, beginning] = [history.floor, this.#beginnings]
    // An event about one of these messages may come before the answer has been put in place.
    const { events, end } = this.#listenIn()
    const page = await this.#reads.history(channel, `${floor}`).finally(end)
    if (!page || beginning !== this.#beginnings || history.floor !== floor) return false
    history.floor = page.floor
    for (const [id, message] of page.messages) if (!history.messages.has(id)) history.messages.set(id, message)
    for (const event of events) this.#apply(event)
    this.#tell(`channel ${channel}`)
    return true
  }

  /** One event, in order. */
  receive(event: AnyEvent): void {
    for (const events of this.#overheard) events.push(event)
    if (event.name === "READY") {
      this.#beginnings++
      this.#isRestored = false
      this.#needs.length = 0
      this.#forgetFailures()
      this.#isUnreadKnown = false
    }
    if (event.name === "RESUMED") this.#readFailed()
    this.#apply(event)
  }

  /** Events from here on, until `end`: what a read may have missed. */
  #listenIn(): { events: AnyEvent[]; end: () => void } {
    const events: AnyEvent[] = []
    this.#overheard.add(events)
    return { events, end: () => this.#overheard.delete(events) }
  }

  #isOpen(channel: Snowflake): boolean {
    return this.#options.everything === true || this.#openChannels.has(channel)
  }

  #isWanted(need: Need): boolean {
    if (this.#options.everything) return true
    if (need.part === "history" || need.part === "direct") return this.#openChannels.has(need.channel)
    return need.server === undefined || this.#openServers.has(need.server)
  }

  #lost({ code, reason, willReconnect }: GatewayClose): void {
    // It has never been there, and may be looked for in the wrong place.
    if (this.#connection === "connecting") this.#warn(new GatewayError(code, reason))
    this.#setConnection(willReconnect ? "returning" : "closed")
  }

  #warn(error: unknown): void {
    const { onError = warn } = this.#options
    onError(error)
  }

  #setConnection(connection: Connection): void {
    this.#connection = connection
    this.#tell("connection")
  }

  #apply(event: AnyEvent): void {
    for (const need of reduce(this.state, event)) this.#ask(need)
    for (const change of changesOf(event)) this.#tell(change)
    if (event.name === "MESSAGE_CREATE") this.#trim((event.data as MessageResponse).channel_id)
    if (event.name === "TYPING_START") this.#endTyping(event.data as Events["TYPING_START"])
  }

  /** The end of typing may not be told. */
  #endTyping({ channel_id, user_id }: Events["TYPING_START"]): void {
    const who = `${channel_id} ${user_id}`
    clearTimeout(this.#typing.get(who))
    const end = () => {
      this.#typing.delete(who)
      if (this.state.typing.delete(who)) this.#tell(`channel ${channel_id}`)
    }
    this.#typing.set(who, later(end, this.#options.typingMs ?? 7_000))
  }

  /** CLIENT8: the oldest go, a page at a time. */
  #trim(channel: Snowflake): void {
    const most = this.#options.maxMessages ?? 500
    const history = historyOf(this.state, channel)
    if (!history || history.messages.size <= most + 50) return
    const ids = [...history.messages.keys()].toSorted((a, b) => (isLater(a, b) ? 1 : -1))
    for (const id of ids.slice(0, ids.length - most)) history.messages.delete(id)
    history.floor = BigInt(ids.at(-most)!)
  }

  #ask(need: Need): void {
    if (this.#isRestored || !this.#isWanted(need)) return
    const { unreadEveryMs = 2_000, presencesWithinMs = 10_000 } = this.#options
    if (need.part === "unread") this.#askIn(Math.max(0, this.#unreadReadAt + unreadEveryMs - performance.now()), need)
    else if (need.part === "presences") this.#askIn(Math.random() * presencesWithinMs, need)
    else this.#askNow(need)
  }

  #askIn(ms: number, need: Need): void {
    if (this.#waiting.has(need.part)) return
    const ask = () => {
      this.#waiting.delete(need.part)
      this.#askNow(need)
    }
    this.#waiting.set(need.part, later(ask, ms))
  }

  #askNow(need: Need): void {
    if (need.part === "unread") this.#unreadReadAt = performance.now()
    addTo(this.#needs, need)
    this.#reading ??= this.#readAll()
  }

  async #readAll(): Promise<void> {
    // Not before the event that asks has been applied.
    await Promise.resolve()
    for (let need = this.#needs.shift(); need; need = this.#needs.shift()) {
      const beginning = this.#beginnings
      try {
        await this.#read(need)
        this.#failures = 0
      } catch (error) {
        if (beginning === this.#beginnings) addTo(this.#unreadable, need)
        this.#warn(error)
      }
    }
    this.#reading = undefined
    if (this.#unreadable.length === 0) return
    const { readAgainMs: firstMs = 2_000 } = this.#options
    const backoff = { firstMs, maxMs: Math.max(firstMs, 60_000), jitter: 0.5 }
    this.#againTimer ??= later(() => this.#readFailed(), waitMs(backoff, this.#failures++))
  }

  #readFailed(): void {
    clearTimeout(this.#againTimer)
    this.#againTimer = undefined
    // It is tried with the next connection.
    if (this.#connection === "closed") return
    for (const need of this.#unreadable.splice(0)) this.#askNow(need)
  }

  #forgetFailures(): void {
    this.#unreadable.length = 0
    this.#failures = 0
    clearTimeout(this.#againTimer)
    this.#againTimer = undefined
  }

  /** CLIENT7: what came while it was read may be newer than the answer, so it is applied again. */
  async #read(need: Need): Promise<void> {
    const beginning = this.#beginnings
    const { events, end } = this.#listenIn()
    const put = await this.#answer(need).finally(end)
    if (beginning !== this.#beginnings) return
    put()
    for (const event of events) if (serverOf(event) === need.server || ofUsers.has(event.name)) this.#apply(event)
    for (const change of changedBy(need, this.state)) this.#tell(change)
  }

  /** @returns what puts the answer into the state, where there is still a place for it */
  async #answer(need: Need): Promise<() => void> {
    const { state } = this
    const statuses: Statuses = new Map()
    switch (need.part) {
      case "relationships": {
        const relationships = await this.#reads.relationships(statuses)
        return () => {
          state.relationships = relationships
          setPresences(state, statuses)
        }
      }
      case "presences": {
        const open = [...state.servers].flatMap(([id, server]) => (server ? [id] : []))
        const known = await this.#reads.statuses(open)
        return () => setPresences(state, known)
      }
      case "notifications": {
        const notifications = await this.#reads.notifications()
        return () => void (state.notifications = notifications)
      }
      case "unread": {
        const unread = await this.#reads.unread()
        return () => {
          state.unread = unread
          this.#isUnreadKnown = true
        }
      }
      case "directs": {
        const directs = await this.#reads.directs(state.directs)
        return () => void (state.directs = directs)
      }
      case "direct": {
        const history = await this.#reads.history(need.channel)
        return () => {
          const direct = state.directs.get(need.channel)
          if (direct) state.directs.set(need.channel, { ...direct, history })
        }
      }
      case "server": {
        const server = await this.#reads.server(state.user!.id, need.server, { statuses })
        return () => {
          if (!state.servers.has(need.server)) return
          state.servers.set(need.server, server)
          setPresences(state, statuses)
        }
      }
      case "bans": {
        const bans = await this.#reads.bans(need.server)
        return () => {
          const server = state.servers.get(need.server)
          if (server) server.bans = mayBan(state.user!.id, server) ? bans : null
        }
      }
      case "voice": {
        const calls = await this.#reads.voice(need.channel)
        return () => {
          const server = state.servers.get(need.server)
          if (!calls || !server?.channels.has(need.channel)) return
          for (const [user, { channel_id }] of server.voice) if (channel_id === need.channel) server.voice.delete(user)
          for (const call of calls) server.voice.set(call.user_id, call)
        }
      }
      case "history": {
        // With its server.
        if (state.servers.get(need.server)?.histories.has(need.channel)) return () => {}
        const history: History | undefined = await this.#reads.history(need.channel)
        return () => {
          const server = state.servers.get(need.server)
          if (history && server?.channels.has(need.channel)) server.histories.set(need.channel, history)
        }
      }
    }
  }

  #tell(change: Change): void {
    if (this.#changes.size === 0) queueMicrotask(() => this.#tellAll())
    this.#changes.add(change)
  }

  #tellAll(): void {
    const changes = this.#changes
    this.#changes = new Set()
    for (const listener of this.#listeners) listener(changes)
  }
}

/** A store that follows a gateway client, and reads with a REST client. */
export function createStore(
  { client, gateway }: { client: ReadingClient | Client; gateway: Pick<GatewayClient, "on" | "addIntents"> },
  options: Omit<StoreOptions, "client"> = {},
): Store {
  const store = new Store({ ...options, client: () => client as ReadingClient })
  store.follow(gateway)
  return store
}

const warn = (error: unknown) => console.warn("@starling/client: the store could not read, and tries again:", error)

type Timer = ReturnType<typeof setTimeout>

/** In Node it keeps no process alive. */
function later(act: () => void, ms: number): Timer {
  const timer = setTimeout(act, ms)
  ;(timer as { unref?(): void }).unref?.()
  return timer
}

function addTo(needs: Need[], { part, server, channel }: Need): void {
  const isThere = needs.some(other => other.part === part && other.server === server && other.channel === channel)
  if (!isThere) needs.push({ part, server, channel } as Need)
}

/** They tell of users, wherever these are shown. */
const ofUsers: ReadonlySet<string> = new Set(["USER_UPDATE", "PRESENCE_UPDATE"])

/** The server that an event is about; undefined: none. */
export function serverOf({ data }: AnyEvent): Snowflake | undefined {
  const { server_id } = data as { server_id?: Snowflake | null }
  // Of a conversation outside servers.
  return server_id === "0" ? undefined : (server_id ?? undefined)
}

function changedBy(need: Need, { servers, directs }: ClientState): Change[] {
  const channels = (ids: Iterable<Snowflake>): Change[] => [...ids].map(id => `channel ${id}` as const)
  switch (need.part) {
    case "relationships":
      return ["relationships", "presences"]
    case "server":
      return [
        "servers",
        "presences",
        `server ${need.server}`,
        ...channels(servers.get(need.server)?.histories.keys() ?? []),
      ]
    case "directs":
      return ["directs", ...channels([...directs].filter(([, { history }]) => history).map(([id]) => id))]
    case "bans":
    case "voice":
      return [`server ${need.server}`]
    case "history":
    case "direct":
      return [`channel ${need.channel}`]
    default:
      return [need.part]
  }
}

function changesOf({ name, data }: AnyEvent): Change[] {
  const { channel_id, server_id, id } = data as { channel_id?: Snowflake; server_id?: Snowflake | null; id?: Snowflake }
  if (name === "READY") return ["user", "servers", "directs", "relationships", "notifications", "presences", "unread"]
  if (name === "USER_UPDATE") return ["user", "servers", "directs", "relationships"]
  if (name.startsWith("MESSAGE_") || name.startsWith("TYPING_"))
    return channel_id === undefined
      ? []
      : [`channel ${channel_id}`, ...(name === "MESSAGE_CREATE" ? ["unread" as const] : [])]
  if (name.startsWith("NOTIFICATION_")) return ["notifications"]
  if (name.startsWith("RELATIONSHIP_")) return ["relationships", "presences"]
  if (name === "PRESENCE_UPDATE") return ["presences"]
  if (name === "GUILD_CREATE" || name === "GUILD_DELETE" || name === "GUILD_UPDATE")
    return ["servers", `server ${server_id ?? id ?? ""}`]
  if (name.startsWith("CHANNEL_") && (data as Events["CHANNEL_CREATE"]).recipient_id !== null) return ["directs"]
  return typeof server_id === "string" ? [`server ${server_id}`] : []
}
