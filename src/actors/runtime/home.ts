import type { Snowflake } from "../../contract/fields.ts"
import type { Storage } from "../../storage/storage.ts"
import type { HomeKind, Need, NeedKind } from "./actor.ts"
import type { Shard } from "./shard.ts"

/** The home was dropped while somebody waited for it: whoever waited starts again, from PostgreSQL. */
export class Again extends Error {
  /** The database refused the turn itself: it has to look closer. */
  readonly suspect: boolean
  constructor(suspect = false) {
    super("the home was loaded anew")
    this.suspect = suspect
  }
}

const loadName = ({ name }: NeedKind<unknown, unknown>, key: string) => `${name} ${key}`

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
  /** Commands that were taken and are not answered yet. */
  waiting = 0
  usedAt: number
  #applied = 0
  #committed = 0
  readonly #cleanWaiters: CleanWaiter[] = []
  readonly #loads = new Map<string, Promise<void>>()
  readonly #facts: readonly NeedKind<unknown, unknown>[]

  constructor(id: Snowflake, shard: Shard, kind: HomeKind<unknown>, state: unknown, now: number) {
    this.id = id
    this.shard = shard
    this.state = state
    this.#facts = kind.facts ?? []
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

  /** Loads what is not in memory yet, of each kind together; undefined when all is there. */
  loadMissing(needs: readonly Need<never>[], storage: Storage, now: number): Promise<unknown> | undefined {
    let loads: Set<Promise<void>> | undefined
    let missing: Map<NeedKind<unknown, unknown>, Set<string>> | undefined
    for (const { kind, key } of needs as readonly Need<unknown>[]) {
      if (kind.map(this.state).has(key)) continue
      loads ??= new Set()
      const underWay = this.#loads.get(loadName(kind, key))
      if (underWay) {
        loads.add(underWay)
        continue
      }
      missing ??= new Map()
      const keys = missing.get(kind)
      if (keys) keys.add(key)
      else missing.set(kind, new Set([key]))
    }
    for (const [kind, keys] of missing ?? []) loads!.add(this.#load(kind, [...keys], storage, now))
    return loads && Promise.all(loads)
  }

  #load(kind: NeedKind<unknown, unknown>, keys: readonly string[], storage: Storage, now: number): Promise<void> {
    const load = kind
      .load(storage, this.id, keys, this.state, now)
      .then(found => {
        const map = kind.map(this.state)
        // A turn may have made one known meanwhile; the turn is right.
        for (const key of keys) if (!map.has(key)) map.set(key, found.get(key) ?? null)
      })
      .finally(() => {
        for (const key of keys) this.#loads.delete(loadName(kind, key))
      })
    for (const key of keys) this.#loads.set(loadName(kind, key), load)
    return load
  }

  /** Whether it holds more facts than it should; then turns wait until it is clean, and the oldest are forgotten. */
  get overfull(): boolean {
    return this.#facts.some(kind => this.#holdsTooMany(kind, 2))
  }

  #holdsTooMany({ keep, keepBytes = Infinity, map, bytes }: NeedKind<unknown, unknown>, times: number): boolean {
    return map(this.state).size > times * keep || (bytes?.(this.state) ?? 0) > times * keepBytes
  }

  /** Only while clean: what is forgotten is loaded again from PostgreSQL, which must know all of it. */
  forgetOldFacts(): void {
    for (const kind of this.#facts) {
      if (!this.#holdsTooMany(kind, 2)) continue
      const map = kind.map(this.state)
      for (const key of map.keys()) {
        if (!this.#holdsTooMany(kind, 1)) break
        map.delete(key)
      }
    }
  }
}
