import type { Snowflake } from "../contract/core/fields.ts"
import type { OwnedShard } from "../cluster/shard-hash.ts"
import type { Shard } from "./shard.ts"

/** Follows which homes have listeners: see `Shard.onInterestChanged`. */
export interface InterestObserver {
  /**
   * Reads what a former owner has kept beside these shards, before this worker opens them.
   * @returns what to do with each of them once it is open
   */
  inherit(owned: readonly OwnedShard[]): Promise<(shard: Shard) => void>
}

/** Acts on a kind of `AfterCommit`, by its name. */
export interface EffectExtension {
  /** A turn of this home is committed, or may have been. */
  committed(home: Snowflake, value: never): void
}

/** Answers the questions of turns that ask for it by its name. It rejects never, and has a deadline of its own. */
export interface Lookup {
  find(home: Snowflake, question: never): Promise<unknown>
}
