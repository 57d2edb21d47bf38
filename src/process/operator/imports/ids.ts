import type { Snowflake } from "../../../contract/core/fields.ts"
import {
  idOf,
  importedId,
  importedMs,
  importedPerMs,
  firstImportedSequence,
  markOf,
} from "../../../domain/core/snowflake.ts"
import type { ImportStep } from "../../../storage/imports.ts"

/** Ids of what is made now. No server makes such, so they are unique whichever server makes ids of the shard. */
export class NewIds {
  readonly #now: () => number
  #ms = 0
  #nth = 0

  constructor(now: () => number) {
    this.#now = now
  }

  next(shard: number): Snowflake {
    const now = this.#now()
    if (now > this.#ms) [this.#ms, this.#nth] = [now, 0]
    else if (++this.#nth === importedPerMs) [this.#ms, this.#nth] = [this.#ms + 1, 0]
    return idOf(shard, { ms: this.#ms, sequence: firstImportedSequence + this.#nth })
  }
}

/** Something that was said, and where its home lives. */
interface Said {
  readonly shard: number
  readonly atMs: number
}

/**
 * Ids for what was said elsewhere, in its order: each has its own time, and of one time they are
 * counted on from what is there. Where a time has no more, the next one is taken.
 */
export async function idsFor(
  step: Pick<ImportStep, "highest">,
  importId: string,
  said: readonly Said[],
): Promise<Snowflake[]> {
  const slot = (shard: number, ms: number) => importedId(shard, ms, 0)
  const wanted = new Map<Snowflake, { from: Snowflake; to: Snowflake }>()
  for (const { shard, atMs } of said) {
    const ms = importedMs(atMs)
    const from = slot(shard, ms)
    wanted.set(from, { from, to: (BigInt(from) + BigInt(importedPerMs)).toString() })
  }
  const taken = new Map<Snowflake, number>()
  for (const { from, own_id } of await step.highest(importId, [...wanted.values()]))
    if (own_id !== null) taken.set(from, markOf(own_id).sequence - firstImportedSequence + 1)
  const ids: Snowflake[] = []
  for (const { shard, atMs } of said)
    for (let ms = importedMs(atMs); ; ms++) {
      const from = slot(shard, ms)
      const nth = taken.get(from) ?? 0
      if (nth >= importedPerMs) continue
      taken.set(from, nth + 1)
      ids.push(importedId(shard, ms, nth))
      break
    }
  return ids
}
