import type { ServerState } from "../domain/states.ts"
import type { Write } from "../storage/write.ts"
import type { Publication } from "./runtime/actor.ts"

/** What a turn in a server's home does, but for its answer. */
export interface Parts {
  readonly apply: (draft: ServerState) => void
  readonly write: readonly Write[]
  readonly publish: readonly Publication[]
}

/** All of it at once, in this order. */
export const together = (...parts: readonly (Partial<Parts> | undefined)[]): Parts => ({
  apply(draft) {
    for (const part of parts) part?.apply?.(draft)
  },
  write: parts.flatMap(part => part?.write ?? []),
  publish: parts.flatMap(part => part?.publish ?? []),
})
