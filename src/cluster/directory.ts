import { randomInt } from "node:crypto"
import { inTurns } from "../std/batches.ts"
import type { Clock } from "../std/clock.ts"

/** Who owns a shard, as far as this worker knows. A higher epoch is newer. */
export interface ShardOwner {
  readonly shard: number
  readonly owner: string | null
  readonly epoch: number
}

/**
 * The cached map of shards to owners. It may be behind: a worker that is asked wrongly says so, and the map is read again from
 * where the truth is.
 */
export class Directory {
  readonly #owners = new Map<number, ShardOwner>()
  #numbers: readonly number[] = []
  readonly #load: (shards?: readonly number[]) => Promise<readonly ShardOwner[]>
  readonly #clock: Clock
  readonly #refresh: (shard: number) => Promise<void>
  readonly #waiters = new Set<() => void>()

  constructor(load: (shards?: readonly number[]) => Promise<readonly ShardOwner[]>, clock: Clock) {
    this.#load = load
    this.#refresh = inTurns(async shards => {
      this.learn(await load([...new Set(shards)]))
      return shards.map(() => undefined)
    }, clock)
    this.#clock = clock
  }

  /** All that there are, once all were read. */
  get shards(): readonly number[] {
    return this.#numbers
  }

  /** Where a new home is to live. */
  anyShard(): number {
    return this.#numbers[randomInt(this.#numbers.length)]!
  }

  /** Whether there is none of that number: ids allow for more than a cluster need have. */
  lacks(shard: number): boolean {
    return this.#numbers.length > 0 && !this.#owners.has(shard)
  }

  ownerOf(shard: number): string | null | undefined {
    return this.#owners.get(shard)?.owner
  }

  learn(rows: readonly ShardOwner[]): void {
    let news = false
    for (const row of rows) {
      const known = this.#owners.get(row.shard)
      if (known && known.epoch >= row.epoch) continue
      this.#owners.set(row.shard, row)
      news = true
    }
    if (!news) return
    for (const wake of this.#waiters) wake()
  }

  async loadAll(): Promise<readonly ShardOwner[]> {
    const rows = await this.#load()
    this.learn(rows)
    this.#numbers = rows.map(({ shard }) => shard)
    return rows
  }

  /** Reads a shard's owner again: one look at a time, for all who ask meanwhile. */
  refresh(shard: number): Promise<void> {
    return this.#refresh(shard)
  }

  /** Resolves when the map changes, or after a while. */
  changed(milliseconds: number): Promise<void> {
    return new Promise(resolve => {
      const done = () => {
        timer.stop()
        this.#waiters.delete(done)
        resolve()
      }
      const timer = this.#clock.after(milliseconds, done)
      this.#waiters.add(done)
    })
  }
}
