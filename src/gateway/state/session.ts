import type { WebSocket } from "uWebSockets.js"
import type { PeerLogSlice, Span } from "./log-spans.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Sent } from "../protocol/frame-limits.ts"
import type { Encoding, PlainEncoding } from "../protocol/frames.ts"
import type { VisibilityRules } from "./visibility-rules.ts"
import type { Guild } from "./server-view.ts"

/** One socket, from upgrade to close. It is the socket's user data. */
export interface Connection {
  /** As its URL says; what its client sends is in it. */
  readonly plainEncoding: PlainEncoding
  /** What it is sent; compressed from its session's first frame on, where that was asked for. */
  encoding: Encoding
  readonly address: string
  /** Empty where nobody looks at it. */
  readonly userAgent: string
  ws: WebSocket<Connection>
  session: Session | undefined
  /** IDENTIFY or RESUME is under way. */
  busy: boolean
  /** Who waits for the socket to take something; called when it is closed, too. */
  onDrain: (() => void) | undefined
  /** After this nothing may be called on `ws`. */
  closed: boolean
  readonly openedAt: number
  heartbeatAt: number
  readonly sent: Sent
}

/** A session's servers. They are few: a list is searched as fast as a map, and takes a quarter of its memory. */
export class Guilds {
  #list: readonly Guild[] = []

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

  /** In the place of what stood there for the same server. */
  put(guild: Guild): void {
    this.#list = this.has(guild.view.id)
      ? this.#list.map(other => (other.view.id === guild.view.id ? guild : other))
      : [...this.#list, guild]
  }

  delete(server: Snowflake): void {
    this.#list = this.#list.filter(({ view }) => view.id !== server)
  }

  /** As of now, whatever changes later. */
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

/** At `s` a member's roles became others than these. */
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
  /** It was told ahead of its place in the log, at a resume. */
  readonly isEarly?: boolean
  /** PostgreSQL said so; the log may hold nothing of it. */
  readonly isLookedUp?: boolean
}

/** More changes than anybody makes within a resume window. */
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
  /** The last position that was sent or passed over, while reading. */
  cursor: number
  /** Positions up to this one were sent before the socket ended: what is read again is said again. */
  repeatedUntil: number
  /** Its client stands in another worker's log, which will go: it is told a position of this one as soon as it is live. */
  isElsewhere: boolean
  /** While reading: it must not go live before this position, because earlier rows may still be on their way. */
  notBefore: number
  /** What another worker's log holds for it, to be sent before its own log. */
  peerSlices: PeerLogSlice[] | undefined
  /** Rows up to these were sent from elsewhere. */
  cuts: ReadonlyMap<Snowflake, number> | undefined
  /** A read or a load is under way; pumping goes on when it is done. */
  waiting: boolean
  readonly guilds: Guilds
  /** While it reads another worker's log: the rules of servers where its own goes on. */
  ownRules: Map<Snowflake, VisibilityRules> | undefined
  /** The latest comings and goings of servers, with the position at which the client was told. */
  changes: readonly GuildChange[]
  /** The latest changes of its roles, read here. */
  roleChanges: readonly RolesChange[]
  /**
   * Servers whose joining is still to be read from elsewhere, and how many times: what is read of them before the last is not for
   * the session. Of stays that began and ended meanwhile its client is told nothing.
   */
  hidden: Map<Snowflake, number> | undefined
  spans: readonly Span[]
  /** The highest position that its client has said to have received, and up to which of those its user's cursors are written; -1: none. */
  named: number
  settled: number
  /** The call that it holds. */
  voice: VoiceHold | undefined
  /** Monotonic: when a position was last sent to it alone. */
  sentAt: number
  /** Monotonic: when a frame last got through while reading; when the socket ended while detached. */
  progressAt: number
}

/** What is known of a session when it begins. */
type SessionSeed = Pick<Session, "id" | "user" | "accessSession" | "intents" | "encoding" | "cursor" | "spans"> &
  Partial<Session>

/** A session without a socket. @param now monotonic */
export const newSession = (seed: SessionSeed, now: number): Session => ({
  connection: undefined,
  state: "detached",
  notBefore: 0,
  repeatedUntil: 0,
  isElsewhere: false,
  peerSlices: undefined,
  cuts: undefined,
  waiting: false,
  guilds: new Guilds(),
  ownRules: undefined,
  named: -1,
  settled: -1,
  voice: undefined,
  hidden: undefined,
  changes: [],
  roleChanges: [],
  sentAt: now,
  progressAt: now,
  ...seed,
})
