import type { Ask } from "../runtime/actor.ts"
import type { LinkTo } from "../domain/messages/attachments.ts"
import type { Storage } from "../storage/storage.ts"
import type { DeliveryCounts } from "./delivery-counts.ts"

/** What views read from. */
export interface ViewSources {
  readonly ask: Ask
  readonly storage: Pick<Storage, "users" | "messages" | "reactions" | "polls">
  /** Where a file of a message can be read from now on by anybody who is told the link. */
  readonly linkTo: LinkTo
  readonly delivered: Pick<DeliveryCounts, "counts">
  /** Unix milliseconds. */
  readonly clock: () => number
}
