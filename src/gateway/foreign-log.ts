import type { Snowflake } from "../contract/fields.ts"
import type { DeliveryLogs } from "../cluster/delivery-log.ts"
import type { Clock } from "../domain/clock.ts"
import type { LogItem } from "../domain/log-entry.ts"

/** The last row of a home's shard that belongs to the log before. */
export type CutRow = number

/** One stretch of another worker's log, mapped to positions of this worker's. */
export interface ForeignStretch {
  readonly items: readonly LogItem[]
  /** Added to a position there. */
  readonly offset: number
  /** The first of `items` that the client has not seen. */
  next: number
  /** Rows above these belong to the log before this one; rows above `until` to the log after it. */
  readonly after: ReadonlyMap<Snowflake, CutRow> | undefined
  readonly until: ReadonlyMap<Snowflake, CutRow>
}

/** All that a resumed session has to be sent from elsewhere, oldest first. */
export type ForeignItems = ForeignStretch[]

/** The log does not reach back, has a gap, or is too long to hold: the session cannot be resumed. */
export class OutOfReach extends Error {}

export interface ForeignLogOptions {
  readonly logs: DeliveryLogs
  readonly self: string
  readonly maxBytes: number
  readonly keep: number
  readonly clock: Clock
}

/** A joined log's place in the positions of this worker. */
export interface Join {
  readonly log: string
  /** The first position there that is mapped, and where it is mapped to. */
  readonly first: number
  readonly mappedFirst: number
  readonly mappedLast: number
  readonly madeAt: number
}

interface Held {
  items: LogItem[]
  bytes: number
  readTo: number
  reading: Promise<void> | undefined
  first: number
  usedAt: number
}

/** Positions a living log may still hand out before its joint is used up: two minutes by the clock. */
const slack = 120_000 * 4096
/** How long one join marker serves all who come from a log that still grows. */
const livingJoinLasts = 5_000

/**
 * Other workers' logs, read for sessions that move here: each log is read once, however many sessions come from it, and one
 * join marker reserves the positions that its events are mapped to.
 */
export class ForeignLogs {
  readonly #options: ForeignLogOptions
  readonly #held = new Map<string, Held>()
  readonly #joins = new Map<string, Promise<Join>>()

  constructor(options: ForeignLogOptions) {
    this.#options = options
  }

  /** Reserves positions of this worker's log, above everything that the other log has given out. */
  join(log: string, isLiving: boolean, after: number): Promise<Join> {
    const known = this.#joins.get(log)
    if (known)
      return known.then(join => {
        const fresh = !isLiving || this.#options.clock.monotonic() - join.madeAt < livingJoinLasts
        if (fresh && join.mappedFirst > after) return join
        if (this.#joins.get(log) === known) this.#joins.delete(log)
        return this.join(log, isLiving, after)
      })
    const joining = this.#mark(log, after)
    this.#joins.set(log, joining)
    joining.catch(() => this.#joins.delete(log))
    return joining
  }

  async #mark(log: string, after: number): Promise<Join> {
    const { logs, self, clock } = this.#options
    const [first, last] = await Promise.all([logs.firstPosition(log), logs.lastPosition(log)])
    if (first === undefined || last === undefined) throw new OutOfReach("the log is gone")
    const length = last - first + 1 + slack
    const mappedFirst = await logs.mark(self, { floor: Math.max(last + slack, after), from: log, first, length })
    if (mappedFirst === undefined) throw new OutOfReach("the own log is gone")
    return { log, first, mappedFirst, mappedLast: mappedFirst + length - 1, madeAt: clock.monotonic() }
  }

  /** What a log holds after a position, up to its present end. */
  async after(log: string, position: number): Promise<readonly LogItem[]> {
    const { logs, clock } = this.#options
    const last = await logs.lastPosition(log)
    if (last === undefined) throw new OutOfReach("the log is gone")
    let held = this.#held.get(log)
    if (!held) {
      const first = await logs.firstPosition(log)
      if (first === undefined) throw new OutOfReach("the log is gone")
      held = this.#held.get(log) ?? { items: [], bytes: 0, readTo: first - 1, reading: undefined, first, usedAt: 0 }
      this.#held.set(log, held)
    }
    held.usedAt = clock.monotonic()
    // The first position still there marks what was sent just before it as known.
    if (position < held.first - 1) throw new OutOfReach("the log does not reach back")
    while (held.readTo < last) await this.#readOn(log, held)
    const from = firstAfter(held.items, position)
    return held.items.slice(from)
  }

  #readOn(log: string, held: Held): Promise<void> {
    held.reading ??= this.#readChunk(log, held).finally(() => {
      held.reading = undefined
    })
    return held.reading
  }

  async #readChunk(log: string, held: Held): Promise<void> {
    const items = await this.#options.logs.read(log, held.readTo, 500)
    if (items.length === 0) throw new OutOfReach("the log is gone")
    for (const item of items) {
      held.items.push(item)
      held.bytes += item.bytes
    }
    held.readTo = items.at(-1)!.s
    if (held.bytes > this.#options.maxBytes) throw new OutOfReach("too much was missed")
  }

  /** Logs that nobody came for lately go out of memory. */
  sweep(): void {
    const before = this.#options.clock.monotonic() - this.#options.keep
    for (const [log, held] of this.#held)
      if (held.usedAt < before && !held.reading) {
        this.#held.delete(log)
        this.#joins.delete(log)
      }
  }
}

export function firstAfter(items: readonly LogItem[], position: number): number {
  let low = 0
  let high = items.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (items[middle]!.s <= position) low = middle + 1
    else high = middle
  }
  return low
}
