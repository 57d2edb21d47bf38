import type { Snowflake } from "../../contract/core/fields.ts"
import type { LogItem } from "../../domain/core/log-entry.ts"

/**
 * Where a session has been: which positions of its client belong to which log. Each worker has
 * positions of its own. When a session moves, what it missed in the old log is mapped to a range
 * that is reserved in the new one.
 */

/**
 * A slice of positions as the client saw them. On the worker where the session lived they are the
 * log's own. On a worker that it moved to, `lo` stands for `since` in the old log, and each item
 * after it has the next position. So a reserved range is only as long as there are items, however
 * far apart their own positions are.
 */
export interface Span {
  readonly log: string
  readonly lo: number
  /** Null: the slice has no end yet. */
  readonly hi: number | null
  /** Whether positions are counted from `lo`, instead of being the log's own. */
  readonly counted: boolean
  /** The position of that log after which the session read it. */
  readonly since: number
  /**
   * The position of that log after which the session was sent it, if the log was read for others
   * from an earlier position.
   */
  readonly start?: number | undefined
  /** Per home the last row that belongs to the log before; rows above it come from this log. */
  readonly cuts?: Readonly<Record<string, number>> | undefined
}

/** One log of which a resumed session is to be sent a part. */
export interface ReplaySegment {
  readonly log: string
  /** The position after which the log is wanted. */
  readonly start: number
  /**
   * Rows above these belong to this log, the others to the log before it; undefined: this is the
   * first log.
   */
  readonly after: ReadonlyMap<string, number> | undefined
  /** Rows above these belong to the log after this one. */
  readonly until: ReadonlyMap<string, number>
}

/**
 * One slice of another worker's log, mapped to positions of this worker's. The items are shared by
 * all who read it.
 */
export interface PeerLogSlice {
  readonly segment: ReplaySegment
  readonly items: readonly LogItem[]
  /** The position of an item is this base plus its index. */
  readonly base: number
  /** The position of the first item after the segment's start. */
  readonly first: number
  /** The index after the last item that is wanted. */
  readonly end: number
  /** Servers that the session's user joined in the slice, once for every time. */
  readonly joined: readonly Snowflake[]
  /** The indices of items that change who sees what in the session's servers. */
  readonly changes: readonly number[]
  /** Per home of the session: the indices of its items, and how many of them are passed. */
  readonly homes: readonly { readonly at: readonly number[]; next: number }[]
}

/** The slice where a client stopped: the latest one that begins at or before its `seq`. */
export function locate(spans: readonly Span[], seq: number): Span | undefined {
  const span = spans.findLast(({ lo }) => lo <= seq)
  return span && (span.hi === null || seq <= span.hi) ? span : undefined
}

/**
 * The logs to read from a position on, oldest first: all that the session has read since. A worker
 * to which it came back appears again. `cuts` tell where the log takes over in which the session
 * goes on.
 */
export function segmentsFrom(
  spans: readonly Span[],
  from: Span,
  position: number,
  cuts: ReadonlyMap<string, number>,
): ReplaySegment[] {
  const walk = [from]
  // Logs that were read for the same move follow each other.
  let isSameMove = from.counted
  for (const span of spans.slice(spans.indexOf(from) + 1)) {
    if (!span.counted) isSameMove = false
    if (span.counted ? isSameMove : span.log !== walk.at(-1)!.log) walk.push(span)
  }
  return walk.map((span, i) => ({
    log: span.log,
    start: i === 0 ? position : (span.start ?? span.since),
    after: cutsOf(span),
    until: cutsOf(walk[i + 1]) ?? cuts,
  }))
}

/**
 * The logs that are read again for the move in which a client stopped: how many of its segments
 * they are, and the position at which that move began. None when it stopped after its last move.
 */
export function moveOf(spans: readonly Span[], from: Span): { segments: number; begins: number } {
  const at = spans.indexOf(from)
  let end = at
  while (spans[end]?.counted) end++
  const segments = end - at
  let first = at
  if (segments > 0) while (spans[first - 1]?.counted) first--
  return { segments, begins: spans[first]!.lo }
}

/** More spans than a session has that moves and still receives an event now and then. */
const manySpans = 100

/**
 * The spans worth keeping: for a session that moves again and again, without those moves in which
 * its client cannot have seen anything.
 */
export function keptSpans(spans: readonly Span[], seq: number): readonly Span[] {
  if (spans.length <= manySpans) return spans
  const from = locate(spans, seq)
  let isSameMove = false
  const kept = spans.filter(span => {
    if (span === from) isSameMove = span.counted
    else if (!span.counted) isSameMove = false
    return !span.counted || span.lo <= seq || isSameMove
  })
  return kept.slice(-manySpans)
}

export const cutsOf = (span: Span | undefined): ReadonlyMap<string, number> | undefined =>
  span?.cuts && new Map(Object.entries(span.cuts))

/**
 * Whether a row of a home belongs to a segment: after the rows of the log before, and not after the
 * rows at which the next log begins.
 */
export function belongs(segment: Pick<ReplaySegment, "after" | "until">, home: string, row: number): boolean {
  const until = segment.until.get(home)
  return until !== undefined && row <= until && row > (segment.after?.get(home) ?? -1)
}
