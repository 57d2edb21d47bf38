import type { Snowflake } from "../../contract/fields.ts"
import type { Storage } from "../../storage/storage.ts"
import type { Need, NeedKind } from "./actor.ts"
import type { Shard } from "./shard.ts"

/** The home was dropped while somebody waited for it: whoever waited starts again, from PostgreSQL. */
export class Again extends Error {
  constructor() {
    super("the home was loaded anew")
  }
}

interface CleanWaiter {
  readonly after: number
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

/** A server with its channels, or a user, while it is in memory. */
export class Home {
  readonly id: Snowflake
  readonly shard: Shard
  readonly state: unknown
  /** Dropped homes take no turn any more; what waits for them starts again. */
  dropped = false
  /** Commands that wait for their facts. */
  waiting = 0
  usedAt: number
  #applied = 0
  #committed = 0
  readonly #cleanWaiters: CleanWaiter[] = []
  readonly #loads = new Map<string, Promise<void>>()
  readonly #needed = new Set<NeedKind<unknown, unknown>>()

  constructor(id: Snowflake, shard: Shard, state: unknown, now: number) {
    this.id = id
    this.shard = shard
    this.state = state
    this.usedAt = now
  }

  /** Whether everything that turns have applied is committed. */
  get clean(): boolean {
    return this.#applied === this.#committed
  }

  get idle(): boolean {
    return this.clean && this.waiting === 0 && this.#loads.size === 0
  }

  applied(): void {
    this.#applied++
  }

  /** Turns of a home are committed in the order in which they were applied. */
  committed(): void {
    this.#committed++
    while (this.#cleanWaiters.length > 0 && this.#cleanWaiters[0]!.after <= this.#committed)
      this.#cleanWaiters.shift()!.resolve()
    if (this.clean) this.#forgetFacts()
  }

  drop(): void {
    this.dropped = true
    for (const waiter of this.#cleanWaiters.splice(0)) waiter.reject(new Again())
  }

  /** Resolves when all that is applied by now is committed: until then nobody sees what may yet fail. */
  whenClean(): Promise<void> {
    if (this.clean) return Promise.resolve()
    return new Promise((resolve, reject) => this.#cleanWaiters.push({ after: this.#applied, resolve, reject }))
  }

  /** Loads what is not in memory yet; undefined when all is there. */
  loadMissing(needs: readonly Need<never>[], storage: Storage): Promise<unknown> | undefined {
    let loads: Promise<void>[] | undefined
    for (const { kind, key } of needs as readonly Need<unknown>[]) {
      this.#needed.add(kind)
      if (kind.map(this.state).has(key)) continue
      ;(loads ??= []).push(this.#load(kind, key, storage))
    }
    return loads && Promise.all(loads)
  }

  #load(kind: NeedKind<unknown, unknown>, key: string, storage: Storage): Promise<void> {
    const name = `${kind.name} ${key}`
    let load = this.#loads.get(name)
    if (!load) {
      load = kind
        .load(storage, this.id, [key])
        .then(found => {
          // A turn may have made it known meanwhile; the turn is right.
          const map = kind.map(this.state)
          if (!map.has(key)) map.set(key, found.get(key) ?? null)
        })
        .finally(() => this.#loads.delete(name))
      this.#loads.set(name, load)
    }
    return load
  }

  /** A quiet home keeps the newest facts of each kind; what it forgets is loaded again when asked for. */
  #forgetFacts(): void {
    if (this.waiting > 0 || this.#loads.size > 0) return
    for (const kind of this.#needed) {
      const map = kind.map(this.state)
      if (map.size <= 2 * kind.keep) continue
      let surplus = map.size - kind.keep
      for (const key of map.keys()) {
        if (surplus-- <= 0) break
        map.delete(key)
      }
    }
  }
}
