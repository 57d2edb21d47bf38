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
  channelsOf(server: Snowflake): readonly Snowflake[]
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
  readonly mayBeRefused: (awayFor: number) => boolean
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
const beatEvery = 1_500
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

  connect(): void {
    this.#wanted = true
    if (!this.#socket) this.#open()
  }

  /** The network between breaks; it comes back after a while, unless told to stay away. */
  breakOff(awayFor = 0): void {
    if (!this.#socket) return
    this.#socket.cut()
    this.#lost(1006, awayFor)
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
      timeline.after(beatEvery, this, beat)
    }
    timeline.after(beatEvery, this, beat)
  }

  #lost(code: number, awayFor = 0): void {
    if (this.#socket) this.#goneAt = this.#options.timeline.now
    this.#socket = undefined
    this.#isLive = false
    if (notToBeResumed.has(code)) this.#endSession()
    if (code === closeCodes.authentication_failed.code && this.#failures++ > 3) {
      if (!this.#loggedOut) this.#options.history.note("P12", `${this.name} was refused though its session stands`)
      this.#wanted = false
    }
    this.#again(++this.#life, awayFor)
  }

  #again(life: number, awayFor = 0): void {
    const { timeline } = this.#options
    timeline.after(Math.max(awayFor, timeline.between(20, 300)), this, () => {
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
      const awayFor = timeline.now - this.#goneAt
      history.count("sessions refused")
      if (!this.#options.mayBeRefused(awayFor) && !this.#loggedOut)
        history.note("P6", `${this.name}: a session was refused after ${Math.round(awayFor)} ms`)
      this.#endSession()
      this.#identify()
    } else if (frame.op === 11) this.#answeredBeatAt = this.#beatAt
    else if (frame.op === 0) this.#dispatch(frame.t!, frame.s!, frame.d)
  }

  #identify(): void {
    this.#socket!.send({ op: 2, d: { token: this.#options.token, intents: largestIntents } })
  }

  #dispatch(name: string, s: number, d: unknown): void {
    const { history, timeline } = this.#options
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
        relationships: new Map(this.#options.reads.relationshipsOf(this.user)),
        lastS: s,
        isOver: false,
      }
      history.sessions.push(this.#session)
      history.count("sessions")
      for (const { id } of guilds) this.#see(this.#session, id)
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
    if (name === "GUILD_CREATE") this.#see(session, (d as { id: Snowflake }).id)
    else if (name === "GUILD_DELETE") {
      const sight = session.openSights.get((d as { id: Snowflake }).id)
      if (!sight) return
      sight.until = timeline.now
      session.openSights.delete(sight.server)
    } else if (name === "RELATIONSHIP_ADD") {
      const { user_id, status } = d as { user_id: Snowflake; status: RelationshipStatus }
      session.relationships.set(user_id, status)
    } else if (name === "RELATIONSHIP_REMOVE") session.relationships.delete((d as { user_id: Snowflake }).user_id)
    else if (name.startsWith("MESSAGE_")) this.#message(session, name, d as Message)
  }

  #see(session: Seen, server: Snowflake): void {
    const { reads, timeline } = this.#options
    // Said again after a resume: what is known goes on.
    if (session.openSights.has(server)) return
    const channels = reads.channelsOf(server)
    const sight: Sight = {
      server,
      from: timeline.now,
      made: new Map(channels.map(channel => [channel, reads.madeIn(channel)])),
      messages: new Map(channels.map(channel => [channel, new Map(reads.messagesOf(channel))])),
      created: new Map(channels.map(channel => [channel, []])),
    }
    session.sights.push(sight)
    session.openSights.set(server, sight)
  }

  #message(session: Seen, name: string, message: Message): void {
    const { history } = this.#options
    const sight = session.openSights.get(message.server_id)
    if (!sight) return history.note("P13", `${this.name}: ${name} of a server that it does not see`)
    const messages = sight.messages.get(message.channel_id)!
    if (name === "MESSAGE_CREATE") {
      history.count("deliveries")
      sight.created.get(message.channel_id)!.push(message.id)
      messages.set(message.id, message.content)
    } else if (name === "MESSAGE_UPDATE") {
      if (messages.has(message.id)) messages.set(message.id, message.content)
    } else messages.delete(message.id)
  }
}
