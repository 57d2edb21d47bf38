import type { Ask } from "../runtime/actor.ts"
import type { LinkTo } from "../domain/messages/attachments.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import type { Reads } from "../storage/replica.ts"
import type { Storage } from "../storage/storage.ts"
import type { DeliveryCounts } from "./delivery-counts.ts"

/** What views read from. */
export interface ViewSources {
  readonly ask: Ask
  readonly storage: Pick<Storage, "users" | "messages" | "reactions" | "polls">
  /** Where a file of a message can be read from now on by anybody who is told the link. */
  readonly linkTo: LinkTo
  readonly delivered: Pick<DeliveryCounts, "counts">
  /** Where what is not new may be read instead of PostgreSQL itself; absent: nowhere. */
  readonly oldReads?: OldReads | undefined
  /** Unix milliseconds. */
  readonly clock: () => number
}

/** A copy of PostgreSQL, which may be behind a little. */
export interface OldReads {
  /** What is to be asked for a user now; undefined: PostgreSQL itself. */
  for(user: Snowflake): Promise<Reads | undefined>
  /** Whether a message was sent so long ago that the copy has it. */
  isOld(id: Snowflake): boolean
}
