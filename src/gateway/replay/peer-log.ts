import type { DeliveryLogs } from "../../cluster/delivery-log.ts"
import type { Clock } from "../../std/clock.ts"
import { unavailable } from "../../contract/core/errors.ts"
import type { LogItem } from "../../domain/core/log-entry.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Metrics } from "../../observability/metrics.ts"
import { belongs, type PeerLogSlice, type ReplaySegment, type Span } from "../state/log-spans.ts"
import { firstNotBelow } from "../../std/sorted-search.ts"
import { firstAfter, HeldLog } from "./held-log.ts"

/** The index of the next item that may be for the session; undefined when all were passed. */
export function nextPiece({ homes, end }: PeerLogSlice): number | undefined {
  let first = end
  for (const { at, next } of homes) if (next < at.length && at[next]! < first) first = at[next]!
  return first < end ? first : undefined
}

export function passPiece({ homes }: PeerLogSlice, index: number): void {
  for (const home of homes) if (home.at[home.next] === index) home.next++
}

/**
 * The log does not reach back far enough, has a gap, or is too long to hold: the session cannot be
 * resumed.
 */
export class LogTruncated extends Error {}

export interface PeerLogsOptions {
  readonly logs: DeliveryLogs
  /** Whether the content of a worker's log can be relied on. */
  readonly isReal: (worker: string) => Promise<boolean>
  readonly isLiving: (worker: string) => boolean
  readonly self: string
  /** A session that missed more of one log is refused. */
  readonly maxBytes: number
  readonly keep: number
  readonly clock: Clock
  readonly metrics: Metrics
}

/**
 * `lo` is the position here for `since` there. The items after it have the positions that follow,
 * up to `hi`. Those before it may have positions from `first` on.
 */
export interface Join {
  readonly log: string
  readonly since: number
  readonly first: number
  readonly lo: number
  readonly hi: number
  readonly madeAt: number
  /** The worker whose log it is was alive then. */
  readonly isOfLiving: boolean
}

interface Ends {
  readonly oldest: number
  readonly last: number
}

/**
 * How many items a log may still grow by after it was joined. Owners go on appending to a dead
 * worker's log for a while.
 */
const slack = { living: 20_000, dead: 1_000_000 }
/**
 * How many items before the start of a dead worker's join have positions of the same join: sessions
 * that come later may have stopped earlier.
 */
const reservedBefore = 1_000_000
/** While a log still grows, one join marker serves all who come from it in so many milliseconds. */
const livingJoinLastsMs = 5_000
/** All logs together hold so many times what a session may miss of one. */
const allLogsFactor = 4
/** When that is reached, logs are dropped that nobody needed for so long. */
const idleAfterMs = 5_000

/**
 * Reads other workers' logs for sessions that move here, from the earliest position that one of
 * them needs. Each part of a log is read once, however many sessions come from it. A join marker in
 * this worker's log reserves the positions that its events are mapped to.
 */
export class PeerLogs {
  readonly #options: PeerLogsOptions
  readonly #held = new Map<string, HeldLog>()
  readonly #joins = new Map<string, Promise<Join>>()
  /** Requests of this turn of the event loop: where a log begins and ends. */
  readonly #looks = new Map<string, Promise<Ends>>()

  constructor(options: PeerLogsOptions) {
    this.#options = options
  }

  /**
   * Reserves positions of this worker's log for what lies after `start`. They are above everything
   * that the client has seen.
   */
  async join(
    log: string,
    { start, isLiving, above }: { start: number; isLiving: boolean; above: number },
  ): Promise<Join> {
    // Those who come at once read what they need together; then one join serves them all. Who
    // missed too much is refused here, alone.
    const held = await this.#upToEnd(log, start)
    const place = `${this.#options.logs.at(log)} ${log}`
    const known = this.#joins.get(place)
    if (known) {
      const join = fromStart(await known, held, start)
      // One that was made while the worker lived may lie below positions that it gave out later.
      const isFresh = join.isOfLiving
        ? isLiving && this.#options.clock.monotonic() - join.madeAt < livingJoinLastsMs
        : !isLiving
      if (isFresh && join.lo >= join.first && join.lo > above) return join
      if (this.#joins.get(place) === known) this.#joins.delete(place)
      return this.join(log, { start, isLiving, above })
    }
    const joining = this.#mark(log, held, { start, isLiving, above })
    this.#joins.set(place, joining)
    joining.catch(() => this.#joins.get(place) === joining && this.#joins.delete(place))
    return joining
  }

  async #mark(
    log: string,
    held: HeldLog,
    { start, isLiving, above }: { start: number; isLiving: boolean; above: number },
  ): Promise<Join> {
    const { logs, self, clock, metrics } = this.#options
    // A dead worker's log is joined for all who came from it so far, and has positions for those who
    // stopped earlier; a living worker's from where this session stopped.
    const since = isLiving ? start : held.from
    const before = isLiving ? 0 : reservedBefore
    const length = before + 1 + held.count - held.countTo(since) + (isLiving ? slack.living : slack.dead)
    const { last } = await this.ends(log)
    const first = await logs.mark(self, { floor: Math.max(last, above), from: log, since, length })
    if (first === undefined) throw unavailable("own log not made anew yet")
    metrics.gateway.joins.inc()
    return {
      log,
      since,
      first,
      lo: first + before,
      hi: first + length - 1,
      madeAt: clock.monotonic(),
      isOfLiving: isLiving,
    }
  }

  /**
   * Reads a segment of a log from its start up to the present end, mapped to the positions that
   * were reserved for it.
   * @param places where the owners of its homes know the log to hold all that they sent. In another Redis, which it may have
   * come to meanwhile, it has what its worker had read; what is missing is yet to be sent again
   */
  async read(
    segment: ReplaySegment,
    join: Pick<Join, "since" | "lo" | "hi">,
    user?: Snowflake,
    places: readonly string[] = [],
  ): Promise<PeerLogSlice> {
    if (segment.start < join.since) throw new LogTruncated("no positions are reserved for what lies before")
    const held = await this.#upToEnd(segment.log, join.since, segment.start)
    if (places.some(place => place !== held.at)) throw unavailable("log is not known to be whole")
    const { items, homes, gaps, joins, changes } = held.content
    const base = join.lo + 1 + held.first - held.countTo(join.since)
    const start = firstAfter(items, segment.start)
    const end = items.length
    if (gaps.some(at => at >= start)) throw new LogTruncated("a gap lies between")
    const mine = [...segment.until.keys()].flatMap(home => (homes.has(home) ? [homes.get(home)!] : []))
    for (const at of mine) {
      const last = at.findLast(index => belongsTo(segment, items[index]!))
      if (last !== undefined && last >= start && base + last >= join.hi)
        throw new LogTruncated("the reserved positions are used up")
    }
    const joined = user === undefined ? [] : (joins.get(user) ?? [])
    return {
      segment,
      items,
      base,
      first: base + start,
      end,
      joined: joined.flatMap(({ at, server }) => (at >= start && belongsTo(segment, items[at]!) ? [server] : [])),
      changes: [...segment.until.keys()].flatMap(home => {
        const at = changes.get(home)
        return at ? at.slice(firstFrom(at, start)) : []
      }),
      homes: mine.map(at => ({ at, next: firstFrom(at, start) })),
    }
  }

  /**
   * The position in a log that a client had reached when it had seen everything up to `seq` of a
   * slice.
   */
  async positionAt(span: Span, seq: number): Promise<number> {
    if (!span.counted) return Math.max(seq, span.since)
    if (seq === span.lo) return span.since
    const held = await this.#upToEnd(span.log, span.since, Infinity)
    const position = held.positionOf(held.countTo(span.since) + seq - span.lo - 1)
    if (position === undefined) throw new LogTruncated("a position that was never given out")
    return position
  }

  /**
   * Finds where a log begins and ends. Requests of one turn of the event loop share the read, which
   * begins after all of them.
   */
  ends(log: string): Promise<Ends> {
    let look = this.#looks.get(log)
    if (!look) {
      look = this.#look(log)
      look.catch(() => {})
      this.#looks.set(log, look)
    }
    return look
  }

  async #look(log: string): Promise<Ends> {
    const { logs, clock, isReal, isLiving } = this.#options
    await new Promise<void>(resolve => clock.soon(resolve))
    this.#looks.delete(log)
    const [oldest, last] = await Promise.all([logs.firstPosition(log), logs.lastPosition(log)])
    if (oldest !== undefined && last !== undefined) return { oldest, last }
    // This worker may know of another Redis before the one whose log it is has made it anew there.
    if (isLiving(log)) throw unavailable("log not made anew yet")
    await isReal(log)
    throw new LogTruncated("the log is gone")
  }

  /**
   * Counts a log's items from a position, or an earlier one, to its present end, and holds those
   * after `start`.
   */
  async #upToEnd(log: string, position: number, start = position): Promise<HeldLog> {
    const { logs, clock, maxBytes, isReal } = this.#options
    const [{ oldest, last }, real] = await Promise.all([this.ends(log), isReal(log)])
    if (!real) throw new LogTruncated("the log was made by a worker that was dead")
    // If the position just before the oldest item was sent, nothing is missing.
    if (position < oldest - 1) throw new LogTruncated("the log does not reach back")
    const at = logs.at(log)
    let held = this.#held.get(log)
    if (held?.at !== at) {
      held = new HeldLog(at, position, maxBytes)
      this.#held.set(log, held)
    }
    held.usedAt = clock.monotonic()
    // More was missed with every item: it needs no reading to know.
    while (!held.isTooMuch(start) && (held.from > position || held.readTo < last))
      await (held.from > position ? this.#readEarlier(log, held, position) : this.#readOn(log, held))
    if (held.isTooMuch(start)) throw new LogTruncated("too much was missed")
    return held
  }

  #readOn(log: string, held: HeldLog): Promise<void> {
    held.reading ??= this.#readAfter(log, held, held.readTo)
      .then(items => held.grow(items))
      .finally(() => {
        held.reading = undefined
      })
    return held.reading
  }

  /** Those who come while it is read wait for it. Then the earliest of them reads for the others. */
  #readEarlier(log: string, held: HeldLog, position: number): Promise<void> {
    held.wanted = Math.min(held.wanted, position)
    held.extending ??= held
      .extend(held.wanted, after => this.#readAfter(log, held, after))
      .catch((error: unknown) => {
        held.wanted = held.from
        throw error
      })
      .finally(() => {
        held.extending = undefined
      })
    return held.extending
  }

  async #readAfter(log: string, held: HeldLog, position: number): Promise<LogItem[]> {
    const { logs, maxBytes, metrics } = this.#options
    this.#dropIdle(held)
    if (this.#heldBytes() > maxBytes * allLogsFactor) throw new LogTruncated("too much is held")
    metrics.gateway.replayReads.inc()
    const items = await logs.read(log, position, 500)
    if (logs.at(log) !== held.at) throw unavailable("log is in another Redis")
    if (items.length === 0) throw new LogTruncated("the log is gone")
    return items
  }

  #heldBytes(): number {
    let bytes = 0
    for (const { content } of this.#held.values()) bytes += content.bytes
    return bytes
  }

  #dropIdle(wanted: HeldLog): void {
    const { maxBytes, clock } = this.#options
    const before = clock.monotonic() - idleAfterMs
    if (this.#heldBytes() <= maxBytes * allLogsFactor) return
    for (const [log, held] of this.#held) if (held !== wanted && held.usedAt < before) this.#drop(log, held)
  }

  #drop(log: string, held: HeldLog): void {
    if (held.reading || held.extending) return
    this.#held.delete(log)
    this.#joins.delete(`${held.at} ${log}`)
  }

  /** Removes logs from memory that no session has needed lately. */
  sweep(): void {
    const before = this.#options.clock.monotonic() - this.#options.keep
    for (const [log, held] of this.#held) if (held.usedAt < before) this.#drop(log, held)
  }
}

/**
 * A join as it is for who stopped at `start`: if that is before it begins, from the earliest
 * position that was read. Each item keeps its position.
 */
function fromStart(join: Join, held: HeldLog, start: number): Join {
  if (join.since <= start) return join
  return { ...join, since: held.from, lo: join.lo - held.countTo(join.since) }
}

/** Whether an item's row belongs to a segment. */
export const belongsTo = (segment: ReplaySegment, { header }: LogItem): boolean =>
  (header[0] === "e" || header[0] === "c") && belongs(segment, header[3], header[2])

/** How many of some rising indices are below one. */
function firstFrom(indices: readonly number[], least: number): number {
  return firstNotBelow(indices.length, i => indices[i]! < least)
}
