import type { Snowflake } from "../../src/contract/core/fields.ts"
import type { RelationshipStatus } from "../../src/contract/social/relationships.ts"

/** A message that somebody tried to send. `endedAt` and `id` stand when it was acknowledged; otherwise it is a maybe. */
export interface Send {
  readonly channel: Snowflake
  readonly author: Snowflake
  readonly content: string
  readonly invokedAt: number
  /** It has no nonce, and its client asks once: only the workers repeat the request among themselves. */
  readonly isOnce: boolean
  endedAt?: number
  id?: Snowflake
}

/** A change of what a user or a session may see; a maybe without `endedAt`. */
export interface Change {
  readonly type: "join" | "leave" | "kick" | "ban" | "hide" | "show" | "logout" | "edit" | "delete"
  readonly user: Snowflake
  readonly server?: Snowflake
  /** Of "hide" and "show". */
  readonly channel?: Snowflake
  readonly session?: Snowflake
  readonly message?: Snowflake
  readonly invokedAt: number
  endedAt?: number
  /** Its only try was refused: it did nothing. */
  isRefused?: boolean
}

/**
 * One channel as a gateway session knew it: from READY, GUILD_CREATE or CHANNEL_CREATE to
 * GUILD_DELETE, CHANNEL_DELETE or its end.
 */
export interface Sight {
  readonly server: Snowflake
  readonly channel: Snowflake
  readonly from: number
  /** What history held then: how many messages were ever made. */
  readonly made: number
  /** id → content, as a read of history and the events since make it. */
  readonly messages: Map<Snowflake, string>
  /** The ids of MESSAGE_CREATE, as they came. */
  readonly created: Snowflake[]
  until?: number
}

/** A gateway session, over all its sockets. */
export interface Seen {
  readonly id: string
  readonly client: string
  readonly user: Snowflake
  readonly accessSession: Snowflake
  readonly sights: Sight[]
  /** By channel. */
  readonly openSights: Map<Snowflake, Sight>
  readonly openServers: Set<Snowflake>
  /** Which it was told that it does not see any longer, and their servers. */
  readonly lostChannels: Map<Snowflake, Snowflake>
  /** What others are to the user, as READY, a read of the list and the events since make it. */
  relationships: Map<Snowflake, RelationshipStatus>
  lastS: number
  /** No more comes: replaced by a new session, or refused. */
  isOver: boolean
}

/** What a client could not have been sent by a right program, noted when it came. */
export interface Oddity {
  readonly promise: string
  readonly what: string
}

export class History {
  readonly sends: Send[] = []
  readonly changes: Change[] = []
  readonly sessions: Seen[] = []
  readonly oddities: Oddity[] = []
  /** Keys of jobs that the queue has. */
  readonly jobs = new Map<string, number>()
  readonly counters = new Map<string, number>()

  note(promise: string, what: string): void {
    this.oddities.push({ promise, what })
  }

  count(what: string, by = 1): void {
    this.counters.set(what, (this.counters.get(what) ?? 0) + by)
  }
}
