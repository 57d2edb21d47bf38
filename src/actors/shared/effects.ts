import type { ServerState } from "../../domain/communities/servers.ts"
import type { Write } from "../../storage/core/write.ts"
import type { Publication } from "../../runtime/actor.ts"

/** What a turn in a server's home does, but for its answer. */
export interface HomeEffects {
  readonly apply: (draft: ServerState) => void
  readonly write: readonly Write[]
  readonly publish: readonly Publication[]
}

/** All of it at once, in this order. */
export const combine = (...effects: readonly (Partial<HomeEffects> | undefined)[]): HomeEffects => ({
  apply(draft) {
    for (const each of effects) each?.apply?.(draft)
  },
  write: effects.flatMap(each => each?.write ?? []),
  publish: effects.flatMap(each => each?.publish ?? []),
})
