import type { Ask, Create } from "../../runtime/actor.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { JobRequest } from "../../contract/core/registry.ts"
import type { Seen } from "../../domain/core/presences.ts"
import type { Log } from "../../observability/log.ts"
import type { Storage } from "../../storage/storage.ts"

/**
 * What every resource has at hand. `Stores`: what it reads. Beyond this, each resource declares
 * what it needs.
 */
export interface Http<Stores extends keyof Storage = never> {
  readonly ask: Ask
  readonly storage: Pick<Storage, Stores>
  /** Unix milliseconds. */
  readonly clock: () => number
  readonly log: Log
}

export interface Creates {
  readonly create: Create
}

/** What the operator decides. The names are those of the configuration. */
export interface Policy<Rules> {
  readonly policy: Rules
}

/** What is outside, beyond storage. */
export interface Uses<Integrations> {
  readonly integrations: Integrations
}

/** Work for later. */
export interface Jobs {
  /** The rows that it is about are there already. */
  readonly add: (job: JobRequest) => Promise<void>
  /** After so many milliseconds, unless this process has ended by then. */
  readonly later: (delayMs: number, work: () => Promise<unknown>) => void
}

/** What is known of people who are connected. */
export interface Live {
  readonly presences: {
    /** Users as others see them; who is missing is offline. */
    of(users: readonly Snowflake[]): Promise<ReadonlyMap<Snowflake, Seen>>
    /** The same, as far as it can be known now. */
    lookUp(users: readonly Snowflake[]): Promise<{
      readonly seen: ReadonlyMap<Snowflake, Seen>
      readonly unknown: ReadonlySet<Snowflake>
    }>
  }
  /** Workers that hold gateway sessions of a user. */
  readonly workersOf: (user: Snowflake) => Promise<string[]>
  /** Typing ends when the user's last gateway socket ends. */
  readonly noteTyping: (user: Snowflake, channel: Snowflake) => Promise<void>
}
