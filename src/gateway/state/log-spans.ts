import type { Snowflake } from "../../contract/core/fields.ts"
import type { LogItem } from "../../domain/core/log-entry.ts"

/**
 * Where a session has been: which positions of its client belong to which log. Positions are each worker's own; when a
 * session moves, what it missed in the old log is mapped into a range that is reserved in the new one.
 */

/**
 * A slice of positions as the client saw them. Where the session lived they are the log's own. Where it moved to, `lo`
 * stands for `since` in the old log, and the pieces after it were given the positions that follow, one each: a reserved range need only be as
 * long as there are pieces, however far apart their own positions lie.
 */
export interface Span {
  readonly log: string
  readonly lo: number
  /** null: up to whatever comes. */
  readonly hi: number | null
  /** Whether positions are counted from `lo`, instead of being the log's own. */
  readonly counted: boolean
  /** The position of that log after which the session read it. */
  readonly since: number
  /** The position of that log after which the session was sent it, where it was read for others from an earlier one. */
  readonly start?: number | undefined
  /** Per home the last row that belongs to the log before; rows above it come from this log. */
  readonly cuts?: Readonly<Record<string, number>> | undefined
}

/** One log that a resumed session has to be sent something of. */
export interface ReplaySegment {
  readonly log: string
  /** The position after which it is wanted. */
  readonly start: number
  /** Rows above these belong to the log before this one; undefined: there is none. */
  readonly after: ReadonlyMap<string, number> | undefined
  /** Rows above these belong to the log after this one. */
  readonly until: ReadonlyMap<string, number>
}

/** One slice of another worker's log, mapped to positions of this worker's. The pieces are shared by all who read it. */
export interface PeerLogSlice {
  readonly segment: ReplaySegment
  readonly items: readonly LogItem[]
  /** The piece at an index has this position, plus the index. */
  readonly base: number
  /** The position of the first piece after the segment's start. */
  readonly first: number
  /** The index after the last piece that is wanted. */
  readonly end: number
  /** Servers that the session's user joined in it, once for every time. */
  readonly joined: readonly Snowflake[]
  /** The indices of what changes who sees what in the session's servers. */
  readonly changes: readonly number[]
  /** Per home of the session, the indices of its pieces and how many of them are behind. */
  readonly homes: readonly { readonly at: readonly number[]; next: number }[]
}

/** Where a client stopped: the latest slice that begins at or before its `seq`. */
export function locate(spans: readonly Span[], seq: number): Span | undefined {
  const span = spans.findLast(({ lo }) => lo <= seq)
  return span && (span.hi === null || seq <= span.hi) ? span : undefined
}

/**
 * The logs to walk from a position on, oldest first: all that the session has read since, a worker that it came back to once
 * more. `cuts` are where the log takes over that it goes on in.
 */
export function segmentsFrom(
  spans: readonly Span[],
  from: Span,
  position: number,
  cuts: ReadonlyMap<string, number>,
): ReplaySegment[] {
  const walk = [from]
  // Within a move the logs that were read for it stand one after another.
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

/** More stretches than a session has that moves and hears something now and then. */
const manySpans = 100

/** What is worth keeping: of a session that moves on and on, not the moves that its client cannot have seen anything of. */
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

/** Whether a row of a home belongs to a segment: above what the log before gave, not above where the log after begins. */
export function belongs(segment: Pick<ReplaySegment, "after" | "until">, home: string, row: number): boolean {
  const until = segment.until.get(home)
  return until !== undefined && row <= until && row > (segment.after?.get(home) ?? -1)
}
