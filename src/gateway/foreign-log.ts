import type { DeliveryLogs } from "../cluster/delivery-log.ts"
import type { Clock } from "../domain/clock.ts"
import type { LogItem } from "../domain/log-entry.ts"
import { belongs, type Leg, type Span } from "./journey.ts"

/** One stretch of another worker's log, mapped to positions of this worker's. */
export interface ForeignStretch {
  readonly leg: Leg
  readonly items: readonly LogItem[]
  /** The position that the first of `items` has here; the others follow one by one. */
  readonly first: number
  /** The first of `items` that the client has not been sent. */
  next: number
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

/** `lo` is the position here for `since` there; the pieces after it have those that follow, up to `hi`. */
export interface Join {
  readonly log: string
  readonly since: number
  readonly lo: number
  readonly hi: number
  readonly madeAt: number
}

interface Held {
  /** Nothing before this position is held. */
  readonly from: number
  readonly items: LogItem[]
  bytes: number
  readTo: number
  reading: Promise<void> | undefined
  usedAt: number
}

/** How many pieces a log may still grow by after it was joined. A dead worker's log takes what owners append for a while. */
const slack = { living: 20_000, dead: 1_000_000 }
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

  /** Reserves positions of this worker's log, above everything that the client has seen, for what lies after `start`. */
  async join(
    log: string,
    { start, isLiving, above }: { start: number; isLiving: boolean; above: number },
  ): Promise<Join> {
    const known = this.#joins.get(log)
    if (known) {
      const join = await known
      const fresh = !isLiving || this.#options.clock.monotonic() - join.madeAt < livingJoinLasts
      if (fresh && join.since <= start && join.lo > above) return join
      if (this.#joins.get(log) === known) this.#joins.delete(log)
      return this.join(log, { start, isLiving, above })
    }
    const joining = this.#mark(log, { start, isLiving, above })
    this.#joins.set(log, joining)
    joining.catch(() => this.#joins.delete(log))
    return joining
  }

  async #mark(
    log: string,
    { start, isLiving, above }: { start: number; isLiving: boolean; above: number },
  ): Promise<Join> {
    const { logs, self, clock } = this.#options
    const [oldest, last] = await Promise.all([logs.firstPosition(log), logs.lastPosition(log)])
    if (oldest === undefined || last === undefined) throw new OutOfReach("the log is gone")
    // A dead worker's whole log is joined once, for all its sessions; a living one's from where this session stopped.
    const since = isLiving ? start : oldest - 1
    const length = 1 + (await this.#after(log, since)).length + (isLiving ? slack.living : slack.dead)
    const lo = await logs.mark(self, { floor: Math.max(last, above), from: log, since, length })
    if (lo === undefined) throw new OutOfReach("no positions could be reserved")
    return { log, since, lo, hi: lo + length - 1, madeAt: clock.monotonic() }
  }

  /** What a leg's log holds after its start, up to its present end, with the positions that were reserved for it. */
  async read(leg: Leg, join: Pick<Join, "since" | "lo" | "hi">): Promise<ForeignStretch> {
    const all = await this.#after(leg.log, join.since)
    const before = firstAfter(all, leg.start)
    const items = all.slice(before)
    const first = join.lo + 1 + before
    for (const [i, { header }] of items.entries()) {
      if (header[0] === "g") throw new OutOfReach("a gap lies between")
      if (header[0] !== "e" && header[0] !== "c") continue
      if (first + i > join.hi && belongs(leg, header[3], header[2]))
        throw new OutOfReach("the reserved positions are used up")
    }
    return { leg, items, first, next: 0 }
  }

  /** Where a client stood in a log when it had seen everything up to `seq` of a stretch. */
  async positionAt(span: Span, seq: number): Promise<number> {
    if (!span.counted) return Math.max(seq, span.since)
    if (seq === span.lo) return span.since
    const piece = (await this.#after(span.log, span.since))[seq - span.lo - 1]
    if (!piece) throw new OutOfReach("a position that was never given out")
    return piece.s
  }

  async #after(log: string, position: number): Promise<readonly LogItem[]> {
    const { logs, clock, maxBytes } = this.#options
    const [oldest, last] = await Promise.all([logs.firstPosition(log), logs.lastPosition(log)])
    if (oldest === undefined || last === undefined) throw new OutOfReach("the log is gone")
    // What was sent just before the first position that is still there is known to be whole.
    if (position < oldest - 1) throw new OutOfReach("the log does not reach back")
    let held = this.#held.get(log)
    if (!held || held.from > position) {
      held = { from: position, items: [], bytes: 0, readTo: position, reading: undefined, usedAt: 0 }
      this.#held.set(log, held)
    }
    held.usedAt = clock.monotonic()
    while (held.readTo < last) {
      await this.#readOn(log, held)
      if (held.bytes <= maxBytes) continue
      if (this.#held.get(log) === held) this.#held.delete(log)
      throw new OutOfReach("too much was missed")
    }
    return held.items.slice(firstAfter(held.items, position))
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

/** The index of the first piece after a position. */
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
