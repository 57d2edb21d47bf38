import type { Clock } from "../domain/clock.ts"

/** Who owns a shard, as far as this worker knows. A higher epoch is newer. */
export interface ShardOwner {
  readonly shard: number
  readonly owner: string | null
  readonly epoch: number
}

/**
 * The cached map of shards to owners. It may be behind: whoever is asked wrongly says so, and the map is read again from
 * where the truth is.
 */
export class Directory {
  readonly #owners = new Map<number, ShardOwner>()
  readonly #load: (shards?: readonly number[]) => Promise<readonly ShardOwner[]>
  readonly #clock: Clock
  readonly #refreshing = new Map<number, Promise<void>>()
  readonly #waiters = new Set<() => void>()

  constructor(load: (shards?: readonly number[]) => Promise<readonly ShardOwner[]>, clock: Clock) {
    this.#load = load
    this.#clock = clock
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
    return rows
  }

  /** Reads one shard's owner again; callers of one moment share the look. */
  refresh(shard: number): Promise<void> {
    let refreshing = this.#refreshing.get(shard)
    if (!refreshing) {
      refreshing = this.#load([shard])
        .then(rows => this.learn(rows))
        .finally(() => this.#refreshing.delete(shard))
      this.#refreshing.set(shard, refreshing)
    }
    return refreshing
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
