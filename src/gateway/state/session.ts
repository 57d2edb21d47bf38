import type { WebSocket } from "uWebSockets.js"
import type { PeerLogSlice, Span } from "./log-spans.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Clock } from "../../std/clock.ts"
import type { Sent } from "../protocol/frame-limits.ts"
import type { Encoding, PlainEncoding } from "../protocol/frames.ts"
import type { HeldFrames } from "../protocol/held-frames.ts"
import type { VisibilityRules } from "./visibility-rules.ts"
import type { Guild } from "./server-view.ts"
import type { ReceivedBefore } from "../../storage/messages/deliveries.ts"

/**
 * What uWebSockets.js keeps with a socket. It makes each field a property of the socket's own object;
 * with more than a dozen that is a hash table, which takes 800 bytes and is slow to read.
 */
export interface SocketData {
  readonly connection: Connection
}

export type Socket = WebSocket<SocketData>

/** One socket, from upgrade to close. */
export interface Connection {
  /** The encoding that the URL asks for; the client's frames use it. */
  readonly plainEncoding: PlainEncoding
  /**
   * The encoding of frames to the client; compressed from its session's first frame on, if the
   * client asked for that.
   */
  encoding: Encoding
  readonly address: string
  /** Where its session is to be resumed. */
  readonly gatewayUrl: string
  /** For whom it counts among the sockets of one address; undefined: it does not. */
  readonly holder: string | undefined
  /** It counts among those that have not identified. */
  isStranger: boolean
  /** Empty if nothing needs it. */
  readonly userAgent: string
  ws: Socket
  session: Session | undefined
  /** IDENTIFY or RESUME is under way. */
  busy: boolean
  /** What waits for it. */
  held: HeldFrames | undefined
  /** Its session was refused: the client may have said what it meant for it before it heard so. */
  wasRefused: boolean
  /** Called when the socket has taken some of its bytes, and when it is closed. */
  onDrain: (() => void) | undefined
  /** After this nothing may be called on `ws`. */
  closed: boolean
  readonly openedAt: number
  heartbeatAt: number
  /** Monotonic: since when a pong is waited for. */
  pingedAt: number | undefined
  readonly sent: Sent
}

/** What most sessions have none of. */
const none: readonly never[] = []

/**
 * A session's servers. They are few: a list is searched as fast as a map, and takes a quarter of
 * its memory.
 */
export class Guilds {
  #list: readonly Guild[] = none

  get size(): number {
    return this.#list.length
  }

  get(server: Snowflake): Guild | undefined {
    for (const guild of this.#list) if (guild.view.id === server) return guild
    return undefined
  }

  has(server: Snowflake): boolean {
    return this.get(server) !== undefined
  }

  /** Each of them is of another server, and there is none yet. */
  fill(list: readonly Guild[]): void {
    this.#list = list
  }

  /** Replaces the entry of the same server. */
  put(guild: Guild): void {
    this.#list = this.has(guild.view.id)
      ? this.#list.map(other => (other.view.id === guild.view.id ? guild : other))
      : this.#list.concat(guild) // a spread would leave space for 16 more
  }

  /** Replaces each entry by another of the same server. */
  replaceAll(by: (guild: Guild) => Guild): void {
    this.#list = this.#list.map(by)
  }

  delete(server: Snowflake): void {
    this.#list = this.#list.filter(({ view }) => view.id !== server)
  }

  /** A copy: later changes do not alter it. */
  values(): readonly Guild[] {
    return this.#list
  }

  keys(): Snowflake[] {
    return this.#list.map(({ view }) => view.id)
  }
}

/** A call that a gateway session holds, as far as its worker knows. */
export interface VoiceHold {
  readonly channel: Snowflake
  readonly voiceSession: string
}

/** At `s` a member's roles changed from these to others. */
export interface RolesChange {
  readonly server: Snowflake
  readonly s: number
  readonly before: readonly Snowflake[]
}

/** A client was told at `s` that a server came or went. */
export interface GuildChange {
  readonly server: Snowflake
  readonly s: number
  readonly isMember: boolean
  /** The client was told before this position of the log, at a resume. */
  readonly isEarly?: boolean
  /** This was read from PostgreSQL; the log may hold nothing of it. */
  readonly isLookedUp?: boolean
}

/** More changes than a user makes within a resume window. */
export const changesKept = 64

/** The servers that a client knew when it had seen everything up to `seq`. */
export function knownAt(seq: number, guilds: Iterable<Snowflake>, changes: readonly GuildChange[]): Set<Snowflake> {
  const known = new Set(guilds)
  for (const { server, s, isMember } of changes.toReversed()) {
    if (s <= seq) break
    if (isMember) known.delete(server)
    else known.add(server)
  }
  return known
}

/**
 * A user's gateway session; it outlives its socket by the resume window.
 *   detached  no socket; the log goes on without it
 *   reading   a cursor on the worker's log, sent as fast as the socket drains
 *   live      subscribed: what is published reaches it; it stands where all live sessions stand
 */
export interface Session {
  readonly id: string
  readonly user: Snowflake
  accessSession: Snowflake
  readonly intents: number
  encoding: Encoding
  connection: Connection | undefined
  state: "detached" | "reading" | "live"
  /** While reading: the last position that was sent or passed over. */
  cursor: number
  /**
   * Positions up to this one were sent before the socket ended: what the client knew of them is
   * told again.
   */
  repeatedUntil: number
  /**
   * The client stands in another worker's log, which will be removed: it is told a position of this
   * one as soon as it is live.
   */
  isElsewhere: boolean
  /**
   * While reading: the session must not go live before this position, because earlier rows may
   * still be on their way.
   */
  notBefore: number
  /** The parts of other workers' logs that are to be sent before this worker's own log. */
  peerSlices: PeerLogSlice[] | undefined
  /** Rows up to these were sent from other logs. */
  cuts: ReadonlyMap<Snowflake, number> | undefined
  /** A read or a load is under way; sending goes on when it is done. */
  waiting: boolean
  readonly guilds: Guilds
  /**
   * While the session reads another worker's log: the rules of its servers where this worker's log
   * takes over.
   */
  ownRules: Map<Snowflake, VisibilityRules> | undefined
  /** The latest servers that came or went, with the position at which the client was told. */
  changes: readonly GuildChange[]
  /** The latest changes of its roles that were read here. */
  roleChanges: readonly RolesChange[]
  /**
   * Servers whose joins are still to be read from other logs, and how many joins there are. What is
   * read of a server before its last join is not for the session: its client is told nothing of
   * stays that began and ended meanwhile.
   */
  hidden: Map<Snowflake, number> | undefined
  spans: readonly Span[]
  /** The highest position that the client has said to have received; -1: none. */
  named: number
  /**
   * Messages that were there when the session came to this worker, until its client has named a
   * position.
   */
  before: readonly ReceivedBefore[] | undefined
  /** The call that the session holds. */
  voice: VoiceHold | undefined
  /** Monotonic: when a position was last sent to this session alone. */
  sentAt: number
  /**
   * Monotonic: when a frame last got through while reading; when the socket ended while detached.
   */
  progressAt: number
}

/** What is known of a session when it begins. */
type SessionSeed = Pick<Session, "id" | "user" | "accessSession" | "intents" | "encoding" | "cursor" | "spans"> &
  Partial<
    Pick<Session, "notBefore" | "isElsewhere" | "peerSlices" | "cuts" | "hidden" | "changes" | "before" | "voice">
  >

/**
 * Times of connections and sessions are whole milliseconds: V8 keeps these in the object itself, and
 * makes an object for each other number.
 */
export const wholeMs = (clock: Pick<Clock, "monotonic">): number => Math.floor(clock.monotonic())

/**
 * A session without a socket. Each field is named here, so that all of them are in one piece of
 * memory.
 * @param now as of `wholeMs`
 */
export const newSession = (seed: SessionSeed, now: number): Session => ({
  id: seed.id,
  user: seed.user,
  accessSession: seed.accessSession,
  intents: seed.intents,
  encoding: seed.encoding,
  connection: undefined,
  state: "detached",
  cursor: seed.cursor,
  repeatedUntil: 0,
  isElsewhere: seed.isElsewhere ?? false,
  notBefore: seed.notBefore ?? 0,
  peerSlices: seed.peerSlices,
  cuts: seed.cuts,
  waiting: false,
  guilds: new Guilds(),
  ownRules: undefined,
  changes: seed.changes ?? none,
  roleChanges: none,
  hidden: seed.hidden,
  spans: seed.spans,
  named: -1,
  before: seed.before && seed.before.length > 0 ? seed.before : undefined,
  voice: seed.voice,
  sentAt: now,
  progressAt: now,
})
