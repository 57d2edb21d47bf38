import type { DeliveryLogs } from "../../cluster/delivery-log.ts"
import type { Clock } from "../../std/clock.ts"
import type { LogItem } from "../../domain/core/log-entry.ts"
import { isRulesChange, type Control } from "../../domain/core/control.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Metrics } from "../../observability/metrics.ts"
import { controlOf } from "../fan-out/controls.ts"
import { belongs, type PeerLogSlice, type ReplaySegment, type Span } from "../state/log-spans.ts"
import { firstNotBelow } from "../../std/sorted-search.ts"

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
  readonly self: string
  readonly maxBytes: number
  readonly keep: number
  readonly clock: Clock
  readonly metrics: Metrics
}

/**
 * `lo` is the position here for `since` there. The items after it have the positions that follow,
 * up to `hi`.
 */
export interface Join {
  readonly log: string
  readonly since: number
  readonly lo: number
  readonly hi: number
  readonly madeAt: number
}

interface Held {
  /** The Redis that it was read from: in another one the same items may have other positions. */
  readonly at: string
  /** Nothing before this position is held. */
  readonly from: number
  readonly items: LogItem[]
  /**
   * Where each home's rows are among the items, where the gaps are, and who joined which server
   * where.
   */
  readonly homes: Map<Snowflake, number[]>
  readonly gaps: number[]
  readonly joins: Map<Snowflake, { at: number; server: Snowflake }[]>
  /** Per home, the items that change who sees what. */
  readonly changes: Map<Snowflake, number[]>
  bytes: number
  readTo: number
  reading: Promise<void> | undefined
  usedAt: number
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
/** While a log still grows, one join marker serves all who come from it in so many milliseconds. */
const livingJoinLastsMs = 5_000

/**
 * Reads other workers' logs for sessions that move here. Each log is read once, however many
 * sessions come from it. One join marker in this worker's log reserves the positions that its
 * events are mapped to.
 */
export class PeerLogs {
  readonly #options: PeerLogsOptions
  readonly #held = new Map<string, Held>()
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
    const place = `${this.#options.logs.at(log)} ${log}`
    const known = this.#joins.get(place)
    if (known) {
      const join = await known
      const fresh = !isLiving || this.#options.clock.monotonic() - join.madeAt < livingJoinLastsMs
      if (fresh && join.since <= start && join.lo > above) return join
      if (this.#joins.get(place) === known) this.#joins.delete(place)
      return this.join(log, { start, isLiving, above })
    }
    const joining = this.#mark(log, { start, isLiving, above })
    this.#joins.set(place, joining)
    joining.catch(() => this.#joins.delete(place))
    return joining
  }

  async #mark(
    log: string,
    { start, isLiving, above }: { start: number; isLiving: boolean; above: number },
  ): Promise<Join> {
    const { logs, self, clock, metrics } = this.#options
    const { oldest, last } = await this.ends(log)
    // A dead worker's log is joined once as a whole, for all its sessions; a living worker's from
    // where this session stopped.
    const since = isLiving ? start : oldest - 1
    const held = await this.#upToEnd(log, since)
    const length = 1 + held.items.length - firstAfter(held.items, since) + (isLiving ? slack.living : slack.dead)
    const lo = await logs.mark(self, { floor: Math.max(last, above), from: log, since, length })
    if (lo === undefined) throw new LogTruncated("no positions could be reserved")
    metrics.gateway.joins.inc()
    return { log, since, lo, hi: lo + length - 1, madeAt: clock.monotonic() }
  }

  /**
   * Reads a segment of a log from its start up to the present end, mapped to the positions that
   * were reserved for it.
   */
  async read(segment: ReplaySegment, join: Pick<Join, "since" | "lo" | "hi">, user?: Snowflake): Promise<PeerLogSlice> {
    const { items, homes, gaps, joins, changes } = await this.#upToEnd(segment.log, join.since)
    const base = join.lo + 1 - firstAfter(items, join.since)
    const start = Math.max(firstAfter(items, segment.start), firstAfter(items, join.since))
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
    const { items } = await this.#upToEnd(span.log, span.since)
    const piece = items[firstAfter(items, span.since) + seq - span.lo - 1]
    if (!piece) throw new LogTruncated("a position that was never given out")
    return piece.s
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
    const { logs, clock } = this.#options
    await new Promise<void>(resolve => clock.soon(resolve))
    this.#looks.delete(log)
    const [oldest, last] = await Promise.all([logs.firstPosition(log), logs.lastPosition(log)])
    if (oldest === undefined || last === undefined) throw new LogTruncated("the log is gone")
    return { oldest, last }
  }

  /** Holds a log up to its present end, from a position or an earlier one. */
  async #upToEnd(log: string, position: number): Promise<Held> {
    const { logs, clock, maxBytes, isReal } = this.#options
    const [{ oldest, last }, real] = await Promise.all([this.ends(log), isReal(log)])
    if (!real) throw new LogTruncated("the log was made by a worker that was dead")
    // If the position just before the oldest item was sent, nothing is missing.
    if (position < oldest - 1) throw new LogTruncated("the log does not reach back")
    const at = logs.at(log)
    let held = this.#held.get(log)
    if (!held || held.from > position || held.at !== at) {
      held = {
        at,
        from: position,
        items: [],
        homes: new Map(),
        gaps: [],
        joins: new Map(),
        changes: new Map(),
        bytes: 0,
        readTo: position,
        reading: undefined,
        usedAt: 0,
      }
      this.#held.set(log, held)
    }
    held.usedAt = clock.monotonic()
    while (held.readTo < last) {
      await this.#readOn(log, held)
      if (this.#heldBytes() <= maxBytes) continue
      if (this.#held.get(log) === held) this.#held.delete(log)
      throw new LogTruncated("too much was missed")
    }
    return held
  }

  #heldBytes(): number {
    let bytes = 0
    for (const held of this.#held.values()) bytes += held.bytes
    return bytes
  }

  #readOn(log: string, held: Held): Promise<void> {
    held.reading ??= this.#readChunk(log, held).finally(() => {
      held.reading = undefined
    })
    return held.reading
  }

  async #readChunk(log: string, held: Held): Promise<void> {
    this.#options.metrics.gateway.replayReads.inc()
    const items = await this.#options.logs.read(log, held.readTo, 500)
    if (items.length === 0) throw new LogTruncated("the log is gone")
    for (const item of items) note(held, item)
    held.readTo = items.at(-1)!.s
  }

  /** Removes logs from memory that no session has needed lately. */
  sweep(): void {
    const before = this.#options.clock.monotonic() - this.#options.keep
    for (const [log, held] of this.#held)
      if (held.usedAt < before && !held.reading) {
        this.#held.delete(log)
        this.#joins.delete(`${held.at} ${log}`)
      }
  }
}

/** Adds an item to a log that is held. */
function note(held: Held, item: LogItem): void {
  const at = held.items.push(item) - 1
  held.bytes += item.bytes
  const { header } = item
  if (header[0] === "g") held.gaps.push(at)
  if (header[0] !== "e" && header[0] !== "c") return
  const home = held.homes.get(header[3])
  if (home) home.push(at)
  else held.homes.set(header[3], [at])
  if (header[0] !== "c") return
  const [, , , server, , type] = header
  if (isRulesChange({ type }) || type === "memberRoles") {
    const changes = held.changes.get(header[3])
    if (changes) changes.push(at)
    else held.changes.set(header[3], [at])
  }
  if (type !== "joined") return
  const { user } = controlOf(item) as Extract<Control, { type: "joined" }>
  held.joins.set(user, [...(held.joins.get(user) ?? []), { at, server }])
}

/** Whether an item's row belongs to a segment. */
export const belongsTo = (segment: ReplaySegment, { header }: LogItem): boolean =>
  (header[0] === "e" || header[0] === "c") && belongs(segment, header[3], header[2])

/** How many of some rising indices are below one. */
function firstFrom(indices: readonly number[], least: number): number {
  return firstNotBelow(indices.length, i => indices[i]! < least)
}

/** The index of the first item after a position. */
export function firstAfter(items: readonly LogItem[], position: number): number {
  return firstNotBelow(items.length, i => items[i]!.s <= position)
}
