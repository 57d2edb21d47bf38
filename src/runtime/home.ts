import type { Snowflake } from "../contract/core/fields.ts"
import type { Facts } from "../domain/core/facts.ts"
import type { Fact, Need } from "./facts.ts"
import type { Shard } from "./shard.ts"

/** The home was dropped while somebody waited for it: they start again, from PostgreSQL. */
export class HomeReloaded extends Error {
  /** The database refused the turn itself: it has to look closer. */
  readonly suspect: boolean
  constructor(suspect = false) {
    super("the home was loaded anew")
    this.suspect = suspect
  }
}

type AnyFact = Fact<unknown, unknown>

const loadName = ({ index }: AnyFact, key: string) => `${index} ${key}`

interface CleanWaiter {
  readonly turns: number
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

/** The homes that are in memory, by their ids. */
export class Homes extends Map<Snowflake, Home> {
  drop(home: Home): void {
    if (this.get(home.id) === home) this.delete(home.id)
    home.drop()
  }
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
  /** Of the command that was last taken. */
  kind = ""
  /** Commands that it took in the last full span, and in the one that goes on. */
  recentTurns = 0
  #turns = 0
  #applied = 0
  #committed = 0
  readonly #cleanWaiters: CleanWaiter[] = []
  /** Of state that holds any. */
  readonly #facts: Facts | undefined
  readonly #loads = new Map<string, Promise<void>>()

  constructor(id: Snowflake, shard: Shard, state: unknown, now: number) {
    this.id = id
    this.shard = shard
    this.state = state
    this.#facts = (state as { readonly facts?: Facts }).facts
    this.usedAt = now
  }

  /** Whether everything that turns have applied is committed. */
  get clean(): boolean {
    return this.#applied === this.#committed
  }

  get idle(): boolean {
    return this.clean && this.waiting === 0 && this.#loads.size === 0
  }

  noteTurn(kind: string): void {
    this.kind = kind
    this.#turns++
  }

  /** A span ends. */
  countTurns(): void {
    this.recentTurns = this.#turns
    this.#turns = 0
  }

  applied(): void {
    this.#applied++
  }

  /** Turns of a home are committed in the order in which they were applied. */
  committed(): void {
    this.#committed++
    while (this.#cleanWaiters.length > 0 && this.#cleanWaiters[0]!.turns <= this.#committed)
      this.#cleanWaiters.shift()!.resolve()
  }

  drop(): void {
    this.dropped = true
    for (const waiter of this.#cleanWaiters.splice(0)) waiter.reject(new HomeReloaded())
  }

  /** Resolves when all that is applied by now is committed: until then nobody sees what may yet fail. */
  whenClean(): Promise<void> {
    if (this.clean) return Promise.resolve()
    return new Promise((resolve, reject) => this.#cleanWaiters.push({ turns: this.#applied, resolve, reject }))
  }

  /** Loads what is not in memory yet, of each fact together; undefined when all is there. */
  loadMissing(needs: readonly Need<never>[], source: unknown, now: number): Promise<unknown> | undefined {
    let loads: Set<Promise<void>> | undefined
    let missing: Map<AnyFact, Set<string>> | undefined
    for (const { fact, key } of needs as readonly Need<unknown>[]) {
      if (fact.of(this.state).has(key)) continue
      loads ??= new Set()
      const underWay = this.#loads.get(loadName(fact, key))
      if (underWay) {
        loads.add(underWay)
        continue
      }
      missing ??= new Map()
      const keys = missing.get(fact)
      if (keys) keys.add(key)
      else missing.set(fact, new Set([key]))
    }
    for (const [fact, keys] of missing ?? []) loads!.add(this.#load(fact, [...keys], source, now))
    return loads && Promise.all(loads)
  }

  #load(fact: AnyFact, keys: readonly string[], source: unknown, now: number): Promise<void> {
    const load = fact
      .load(source as never, this.id, keys, this.state, now)
      .then(found => {
        const map = fact.of(this.state)
        // A turn may have made one known meanwhile; the turn is right.
        for (const key of keys) if (!map.has(key)) map.set(key, found.get(key) ?? null)
      })
      .finally(() => {
        for (const key of keys) this.#loads.delete(loadName(fact, key))
      })
    for (const key of keys) this.#loads.set(loadName(fact, key), load)
    return load
  }

  /** Whether it holds more facts than it should; then turns wait until it is clean, and the oldest are forgotten. */
  get overfull(): boolean {
    return this.#facts?.overfull ?? false
  }

  /** Only while clean: what is forgotten is loaded again from PostgreSQL, which must know all of it. */
  forgetOldFacts(): void {
    this.#facts?.forgetOldest()
  }
}
