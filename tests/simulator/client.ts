import { closeCodes } from "../../src/contract/core/gateway-codes.ts"
import type { Snowflake } from "../../src/contract/core/fields.ts"
import type { RelationshipStatus } from "../../src/contract/social/relationships.ts"
import { largestIntents } from "../../src/contract/core/intents.ts"
import type { History, Seen, Sight } from "./history.ts"
import type { ClientSocket } from "./sockets.ts"
import type { Actor, Timeline } from "./timeline.ts"
import type { SimulatedWorker } from "./worker.ts"

/** What a client sees of the store: a read of history over REST, at this moment. */
export interface Reads {
  /** Those that the user may view. */
  channelsOf(server: Snowflake, user: Snowflake): readonly Snowflake[]
  madeIn(channel: Snowflake): number
  messagesOf(channel: Snowflake): ReadonlyMap<Snowflake, string>
  relationshipsOf(user: Snowflake): ReadonlyMap<Snowflake, RelationshipStatus>
}

export interface ClientOptions {
  readonly name: string
  readonly user: Snowflake
  readonly token: string
  readonly accessSession: Snowflake
  readonly timeline: Timeline
  readonly history: History
  readonly reads: Reads
  /** Some worker, as a balancer gives one; undefined: none listens. */
  readonly somewhere: () => SimulatedWorker | undefined
  /** Whether INVALID_SESSION is the right answer to a session that was away so long. */
  readonly mayBeRefused: (awayForMs: number) => boolean
}

interface Guild {
  id: Snowflake
  channels: { id: Snowflake }[]
}

interface Message {
  id: Snowflake
  channel_id: Snowflake
  server_id: Snowflake
  content: string
}

const notToBeResumed = new Set<number>(
  Object.values(closeCodes).flatMap(({ code, resume }) => (resume || code === 1000 ? [] : [code])),
)
const beatEveryMs = 1_500
const silentFor = 4_000

/** A gateway client as the protocol wants it: it identifies, beats, resumes, and keeps what it was told. */
export class SimulatedClient implements Actor {
  readonly name: string
  dead = false
  pausedUntil = 0
  /** Milliseconds that it takes for one frame; 0: at once. */
  pace = 0
  readonly user: Snowflake
  readonly #options: ClientOptions
  #socket: ClientSocket | undefined
  /** Grows with every socket: what a former one had planned does not happen. */
  #life = 0
  #session: Seen | undefined
  #heardAt = 0
  #beatAt = 0
  #answeredBeatAt = -1
  #goneAt = 0
  #isLive = false
  #wanted = false
  #loggedOut = false
  #failures = 0

  constructor(options: ClientOptions) {
    this.#options = options
    this.name = options.name
    this.user = options.user
  }

  /** Whether it is live, and a beat that it sent after a moment was answered. */
  isLiveSince(moment: number): boolean {
    return this.#isLive && this.#answeredBeatAt > moment
  }
  get isWanted(): boolean {
    return this.#wanted && !this.#loggedOut
  }
  get session(): Seen | undefined {
    return this.#session
  }
  get accessSession(): Snowflake {
    return this.#options.accessSession
  }
  get token(): string {
    return this.#options.token
  }

  connect(): void {
    this.#wanted = true
    if (!this.#socket) this.#open()
  }

  /** The network between breaks; it comes back after a while, unless told to stay away. */
  breakOff(awayForMs = 0): void {
    if (!this.#socket) return
    this.#socket.cut()
    this.#lost(1006, awayForMs)
  }

  loggedOut(): void {
    this.#loggedOut = true
    this.#wanted = false
    if (this.#session) this.#session.isOver = true
  }

  #open(): void {
    const { timeline, somewhere } = this.#options
    const life = ++this.#life
    this.#beatAt = this.#answeredBeatAt = -1
    const worker = somewhere()
    if (!worker) return this.#again(life)
    this.#heardAt = timeline.now
    this.#socket = worker.sockets.connect(this, {
      onFrame: frame => {
        if (life === this.#life) this.#take(frame)
      },
      onClose: code => {
        if (life === this.#life) this.#lost(code)
      },
    })
    const beat = () => {
      if (life !== this.#life) return
      if (timeline.now - this.#heardAt > silentFor) return this.breakOff()
      if (this.#answeredBeatAt >= this.#beatAt) this.#beatAt = timeline.now
      this.#socket!.send({ op: 1, d: null })
      timeline.after(beatEveryMs, this, beat)
    }
    timeline.after(beatEveryMs, this, beat)
  }

  #lost(code: number, awayForMs = 0): void {
    if (this.#socket) this.#goneAt = this.#options.timeline.now
    this.#socket = undefined
    this.#isLive = false
    if (notToBeResumed.has(code)) this.#endSession()
    if (code === closeCodes.authentication_failed.code && this.#failures++ > 3) {
      if (!this.#loggedOut) this.#options.history.note("P12", `${this.name} was refused though its session stands`)
      this.#wanted = false
    }
    this.#again(++this.#life, awayForMs)
  }

  #again(life: number, awayForMs = 0): void {
    const { timeline } = this.#options
    timeline.after(Math.max(awayForMs, timeline.between(20, 300)), this, () => {
      if (life === this.#life && this.#wanted && !this.#socket) this.#open()
    })
  }

  #endSession(): void {
    if (!this.#session) return
    this.#session.isOver = true
    this.#session = undefined
  }

  #take(frame: { op: number; t?: string; s?: number; d: unknown }): void {
    const { timeline, history, token } = this.#options
    this.#heardAt = timeline.now
    if (process.env.SIMCLIENT === this.name && frame.op !== 11)
      console.log(timeline.now.toFixed(1), this.name, JSON.stringify(frame).slice(0, 300))
    if (frame.op === 10) {
      if (this.#session) {
        this.#socket!.send({ op: 6, d: { token, session_id: this.#session.id, seq: this.#session.lastS } })
        history.count("resumes asked")
      } else this.#identify()
    } else if (frame.op === 9) {
      const awayForMs = timeline.now - this.#goneAt
      history.count("sessions refused")
      if (!this.#options.mayBeRefused(awayForMs) && !this.#loggedOut)
        history.note("P6", `${this.name}: a session was refused after ${Math.round(awayForMs)} ms`)
      this.#endSession()
      this.#identify()
    } else if (frame.op === 11) this.#answeredBeatAt = this.#beatAt
    else if (frame.op === 0) this.#dispatch(frame.t!, frame.s!, frame.d)
  }

  #identify(): void {
    this.#socket!.send({ op: 2, d: { token: this.#options.token, intents: largestIntents } })
  }

  #dispatch(name: string, s: number, d: unknown): void {
    const { history } = this.#options
    if (name === "READY") {
      const { session_id, guilds } = d as { session_id: string; guilds: { id: Snowflake }[] }
      this.#endSession()
      this.#session = {
        id: session_id,
        client: this.name,
        user: this.user,
        accessSession: this.#options.accessSession,
        sights: [],
        openSights: new Map(),
        openServers: new Set(guilds.map(({ id }) => id)),
        lostChannels: new Map(),
        relationships: new Map(this.#options.reads.relationshipsOf(this.user)),
        lastS: s,
        isOver: false,
      }
      history.sessions.push(this.#session)
      history.count("sessions")
      for (const { id } of guilds)
        for (const channel of this.#options.reads.channelsOf(id, this.user)) this.#see(this.#session, id, channel)
      this.#isLive = true
      return
    }
    const session = this.#session
    if (!session) return history.note("P5", `${this.name}: ${name} came without a session`)
    if (name === "RESUMED") {
      history.count("resumes")
      this.#isLive = true
      if (s !== session.lastS) history.note("P5", `${this.name}: RESUMED at ${s}, not ${session.lastS}`)
      return
    }
    if (s < session.lastS) history.note("P5", `${this.name}: position ${s} of ${name} after ${session.lastS}`)
    session.lastS = s
    history.count("events")
    if (name === "GUILD_CREATE") {
      const { id, channels } = d as Guild
      session.openServers.add(id)
      // What it lists may be newer than what comes next: a channel that is not in it may be hidden later on.
      for (const [channel, server] of session.lostChannels) if (server === id) session.lostChannels.delete(channel)
      for (const channel of channels) this.#see(session, id, channel.id)
    } else if (name === "GUILD_DELETE") {
      const { id } = d as { id: Snowflake }
      session.openServers.delete(id)
      this.#lose(session, ({ server }) => server === id)
    } else if (name === "CHANNEL_CREATE") {
      const { id, server_id } = d as { id: Snowflake; server_id: Snowflake }
      this.#see(session, server_id, id)
    } else if (name === "CHANNEL_DELETE") this.#lose(session, ({ channel }) => channel === (d as { id: Snowflake }).id)
    else if (name === "RELATIONSHIP_ADD") {
      const { user_id, status } = d as { user_id: Snowflake; status: RelationshipStatus }
      session.relationships.set(user_id, status)
    } else if (name === "RELATIONSHIP_REMOVE") session.relationships.delete((d as { user_id: Snowflake }).user_id)
    else if (name.startsWith("MESSAGE_")) this.#message(session, name, d as Message)
  }

  #see(session: Seen, server: Snowflake, channel: Snowflake): void {
    const { reads, timeline } = this.#options
    session.lostChannels.delete(channel)
    // Said again after a resume: what is known goes on.
    if (session.openSights.has(channel)) return
    const sight: Sight = {
      server,
      channel,
      from: timeline.now,
      made: reads.madeIn(channel),
      messages: new Map(reads.messagesOf(channel)),
      created: [],
    }
    session.sights.push(sight)
    session.openSights.set(channel, sight)
  }

  #lose(session: Seen, isLost: (sight: Sight) => boolean): void {
    for (const [channel, sight] of session.openSights) {
      if (!isLost(sight)) continue
      sight.until = this.#options.timeline.now
      session.openSights.delete(channel)
      session.lostChannels.set(channel, sight.server)
    }
  }

  #message(session: Seen, name: string, message: Message): void {
    const { history } = this.#options
    const { channel_id, server_id } = message
    if (!session.openServers.has(server_id) || session.lostChannels.has(channel_id))
      return history.note("P13", `${this.name}: ${name} of a channel that it does not see`)
    // It was hidden when the list was read, which the stream is about to say.
    this.#see(session, server_id, channel_id)
    const sight = session.openSights.get(channel_id)!
    const { messages } = sight
    if (name === "MESSAGE_CREATE") {
      history.count("deliveries")
      sight.created.push(message.id)
      messages.set(message.id, message.content)
    } else if (name === "MESSAGE_UPDATE") {
      if (messages.has(message.id)) messages.set(message.id, message.content)
    } else messages.delete(message.id)
  }
}
