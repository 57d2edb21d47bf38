/**
 * Where a session has been: which positions of its client belong to which log. Positions are each worker's own; when a
 * session moves, what it missed in the old log is mapped into a range that is reserved in the new one.
 */

/** A stretch of positions as the client saw them: `s` in [lo, hi] was position `s - offset` of `log`. */
export interface Span {
  readonly log: string
  readonly lo: number
  /** null: up to whatever comes. */
  readonly hi: number | null
  /** 0 where the session lived; else the mapping into the log it moved to. */
  readonly offset: number
  /** The position of that log after which the session read it. */
  readonly since: number
  /** Per home the last row that belongs to the log before; rows above it come from this log. */
  readonly cuts?: Readonly<Record<string, number>> | undefined
}

/** One log that a resumed session has to be sent something of. */
export interface Leg {
  readonly log: string
  /** The position after which it is wanted. */
  readonly start: number
  /** Rows above these belong to the log before this one; undefined: there is none. */
  readonly after: ReadonlyMap<string, number> | undefined
  /** Rows above these belong to the log after this one. */
  readonly until: ReadonlyMap<string, number>
}

/** Where a client stopped: the latest stretch that begins at or before its `seq`, and the position there. */
export function locate(spans: readonly Span[], seq: number): { span: Span; position: number } | undefined {
  const span = spans.findLast(({ lo }) => lo <= seq)
  return !span || (span.hi !== null && seq > span.hi) ? undefined : { span, position: seq - span.offset }
}

/**
 * The logs to walk from there on, oldest first. `cuts` are where the log takes over that the session goes on in: `here`, if it
 * lived there already, which is left out. A session that comes back to a worker finds that one's log among the others.
 */
export function legsFrom(
  spans: readonly Span[],
  from: { span: Span; position: number },
  here: string | undefined,
  cuts: ReadonlyMap<string, number>,
): Leg[] {
  const walk = [from.span]
  for (const span of spans.slice(spans.indexOf(from.span) + 1))
    if (span.offset === 0 && span.log !== walk.at(-1)!.log) walk.push(span)
  const logs = walk.filter(span => span.log !== here)
  return logs.map((span, i) => ({
    log: span.log,
    start: i === 0 ? from.position : span.since,
    after: cutsOf(span),
    until: cutsOf(logs[i + 1]) ?? cuts,
  }))
}

export const cutsOf = (span: Span | undefined): ReadonlyMap<string, number> | undefined =>
  span?.cuts && new Map(Object.entries(span.cuts))

/** Whether a row of a home belongs to a leg: above what the log before gave, not above where the log after begins. */
export function belongs(leg: Pick<Leg, "after" | "until">, home: string, row: number): boolean {
  const until = leg.until.get(home)
  return until !== undefined && row <= until && row > (leg.after?.get(home) ?? -1)
}
