import type { Snowflake } from "../contract/core/fields.ts"
import { idOf, markOf, nextMark, type IdMark } from "../domain/core/snowflake.ts"
import type { Interest } from "../cluster/interests.ts"
import { setNewest } from "../std/bounded-map.ts"
import { append } from "../std/multi-map.ts"

/** Workers of which a shard remembers what their homes share: more than there are at a time. */
const maxAlone = 64

/** What a former owner left: where ids and numbers go on. */
export interface ShardInheritance {
  readonly number: number
  readonly epoch: number
  readonly lastId: Snowflake | undefined
  readonly lastRow: number
  /** The last row that stands in each worker's log. */
  readonly positions: ReadonlyMap<string, number>
  readonly interests: readonly Interest[]
}

/** The request ids of other workers that were answered, for as long as one may come again. */
export interface Answered {
  /** Once it is committed: in short, where it can be. */
  reply: Promise<unknown>
  readonly at: number
}

/**
 * One of the 1,024 parts of the world, while this worker owns it: it makes ids, numbers what it publishes, and knows who
 * takes it. It keeps:
 *   SHARD1  Ids of a shard rise strictly, regardless of clocks and of former owners.
 *   SHARD2  Rows of the outbox are numbered without gaps.
 */
export class Shard {
  readonly number: number
  readonly epoch: number
  /** No new command is taken: the shard is on its way to another owner. */
  closing = false
  /** Commands that were taken and have not ended. */
  running = 0
  /** By home: the workers that take its events, each with the row from which on it does. Homes that say the same share it. */
  readonly interests = new Map<Snowflake, ReadonlyMap<string, number>>()
  /** What homes with one worker have said last, by worker. */
  readonly #alone = new Map<string, ReadonlyMap<string, number>>()
  readonly #interestListeners: ((home: Snowflake) => void)[] = []
  /** The last row sent to each worker's log. */
  readonly sent: Map<string, number>
  /** The rows sent to each worker's log that are still in the outbox, each with the one sent before it. */
  readonly #chains = new Map<string, { number: number; before: number }[]>()
  readonly answered = new Map<string, Answered>()
  #last: IdMark
  /** The highest number given out; its batch may still fail. */
  #lastRow: number
  #committedRow: number
  #unsaved: Interest[] = []
  #removed: Pick<Interest, "home" | "worker">[] = []

  constructor(inheritance: ShardInheritance) {
    this.number = inheritance.number
    this.epoch = inheritance.epoch
    this.#last = inheritance.lastId === undefined ? { ms: 0, sequence: 0 } : markOf(inheritance.lastId)
    this.#lastRow = inheritance.lastRow
    this.#committedRow = inheritance.lastRow
    this.sent = new Map(inheritance.positions)
    for (const { home, worker, from } of inheritance.interests) this.#interest(home, worker, from)
  }

  noteSent(worker: string, number: number, before: number): void {
    this.sent.set(worker, number)
    append(this.#chains, worker, { number, before })
  }

  /** Rows up to this one are not in the outbox any more. */
  forgetSent(number: number): void {
    for (const [worker, chain] of this.#chains) {
      const kept = chain.findIndex(link => link.number > number)
      if (kept > 0) chain.splice(0, kept)
      else if (kept < 0) this.#chains.delete(worker)
    }
  }

  /** The rows after one, up to another, that were sent to a worker's log; undefined when that is not known any more. */
  sentBetween(worker: string, from: number, last: number): number[] | undefined {
    const links = (this.#chains.get(worker) ?? []).filter(({ number }) => number > from && number <= last)
    return links.length > 0 && links[0]!.before <= from ? links.map(({ number }) => number) : undefined
  }

  newId(nowMs: number): Snowflake {
    this.#last = nextMark(this.#last, nowMs) // SHARD1
    return idOf(this.number, this.#last)
  }

  get lastId(): Snowflake {
    return this.#last.ms === 0 ? "0" : idOf(this.number, this.#last)
  }

  /** The highest number that stands in PostgreSQL. */
  get committedRow(): number {
    return this.#committedRow
  }

  commitRow(number: number): void {
    this.#committedRow = number
  }

  nextRow(): number {
    return ++this.#lastRow // SHARD2
  }

  /** The rows from `number` on were never written. */
  giveBackRows(number: number): void {
    this.#lastRow = number - 1
  }

  /** From now on a worker takes the home's events. */
  addInterest(home: Snowflake, worker: string): void {
    const before = this.interests.get(home)
    if (before?.has(worker)) return
    this.#interest(home, worker, this.#committedRow)
    this.#unsaved.push({ home, worker, from: this.#committedRow })
    if (!before) this.#interestChanged(home)
  }

  removeInterest(home: Snowflake, worker: string): boolean {
    const before = this.interests.get(home)
    if (!before?.has(worker)) return false
    this.#unsaved = this.#unsaved.filter(interest => interest.home !== home || interest.worker !== worker)
    this.#removed.push({ home, worker })
    if (before.size > 1) {
      const [[other, from], ...others] = [...before].filter(([name]) => name !== worker) as [[string, number]]
      this.interests.set(home, others.length === 0 ? this.#aloneFrom(other, from) : new Map([[other, from], ...others]))
      return true
    }
    this.interests.delete(home)
    this.#interestChanged(home)
    return true
  }

  /** Has a function called when the first worker takes a home's events, and when the last one takes them no more. */
  onInterestChanged(listener: (home: Snowflake) => void): void {
    this.#interestListeners.push(listener)
  }

  #interestChanged(home: Snowflake): void {
    for (const listener of this.#interestListeners) listener(home)
  }

  /** Interest that Redis does not know yet. */
  takeUnsaved(): Interest[] {
    if (this.#unsaved.length === 0) return this.#unsaved
    const unsaved = this.#unsaved
    this.#unsaved = []
    return unsaved
  }

  /** Interest that Redis may still know. What is unsaved may have come after it. */
  takeRemoved(): Pick<Interest, "home" | "worker">[] {
    if (this.#removed.length === 0) return this.#removed
    const removed = this.#removed
    this.#removed = []
    return removed
  }

  allInterests(): Interest[] {
    return [...this.interests].flatMap(([home, workers]) =>
      [...workers].map(([worker, from]) => ({ home, worker, from })),
    )
  }

  #interest(home: Snowflake, worker: string, from: number): void {
    const before = this.interests.get(home)
    this.interests.set(home, before ? new Map(before).set(worker, from) : this.#aloneFrom(worker, from))
  }

  /** Most homes are users, with one worker. Those that came since the same row are told apart by nothing. */
  #aloneFrom(worker: string, from: number): ReadonlyMap<string, number> {
    let alone = this.#alone.get(worker)
    if (alone?.get(worker) !== from) {
      alone = new Map([[worker, from]])
      setNewest(this.#alone, worker, alone, maxAlone)
    }
    return alone
  }
}
