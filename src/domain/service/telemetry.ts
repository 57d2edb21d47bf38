import type { TimingEntry } from "../../contract/service/telemetry.ts"
import { bucketOf, bucketCount, largestCounted, percentileOf } from "../../std/log-histogram.ts"
import type { Endpoint, EndpointNames } from "./endpoints.ts"

/** Who measured: the server itself, or a client that says so. */
export const timingSources = ["server", "client"] as const
export type TimingSource = (typeof timingSources)[number]

export const daySeconds = 86_400
/** How long timings are kept. */
export const keptDays = 30
/**
 * Every timing is kept once for each of these spans of seconds, so that whatever is asked for is a few rows: the smallest at
 * its beginning, then hours, then days. Each divides the next.
 */
export const spans = [300, 3_600, daySeconds] as const
const [smallest, hour, day] = spans

/** The beginning of the span in which a moment lies. */
export const beginOf = (seconds: number, span: number): number => seconds - (seconds % span)

/** How long some requests took. Durations are whole microseconds. */
export interface Timing extends Endpoint {
  readonly source: TimingSource
  /** Unix seconds: when its smallest span begins. */
  readonly at: number
  readonly figures: Figures
}

/** What is kept of timings: adding one allocates nothing. */
export class Figures {
  count = 0
  errors = 0
  sumUs = 0
  minUs = largestCounted
  maxUs = 0
  queries = 0
  queryUs = 0
  readonly counts = new Uint32Array(bucketCount)

  /** `us`: any number of microseconds. */
  add(us: number, isError: boolean): void {
    const whole = us < largestCounted ? Math.trunc(us) : largestCounted
    this.count++
    if (isError) this.errors++
    this.sumUs += whole
    if (whole < this.minUs) this.minUs = whole
    if (whole > this.maxUs) this.maxUs = whole
    this.counts[bucketOf(whole)]!++
  }

  /** Buckets that hold any. */
  filled(): { buckets: number[]; counts: number[] } {
    const buckets: number[] = []
    const counts: number[] = []
    for (let bucket = 0; bucket < bucketCount; bucket++) {
      const count = this.counts[bucket]!
      if (count === 0) continue
      buckets.push(bucket)
      counts.push(count)
    }
    return { buckets, counts }
  }

  merge(other: Figures): void {
    this.count += other.count
    this.errors += other.errors
    this.sumUs += other.sumUs
    this.minUs = Math.min(this.minUs, other.minUs)
    this.maxUs = Math.max(this.maxUs, other.maxUs)
    this.queries += other.queries
    this.queryUs += other.queryUs
    for (let bucket = 0; bucket < bucketCount; bucket++) this.counts[bucket]! += other.counts[bucket]!
  }

  clear(): void {
    this.count = this.errors = this.sumUs = this.maxUs = this.queries = this.queryUs = 0
    this.minUs = largestCounted
    this.counts.fill(0)
  }
}

/** An answer counts as an error from here on. */
export const firstErrorStatus = 400

/** Text that is no number says why there was no answer. */
const isError = (status: number | string): boolean => {
  const code = typeof status === "number" ? status : /^\s*\d{3}\s*$/.test(status) ? Number(status) : 0
  return code < 100 || code >= firstErrorStatus
}

/** What clients may say of one entry: more queries than this count as so many. */
const maxQueries = 1_000_000

/** Timestamps from here on are milliseconds. */
const firstMilliseconds = 100_000_000_000

/** Within what is kept: what was before, and what is to come, counts at its ends. */
function momentOf(timestamp: number | undefined, nowS: number): number {
  if (timestamp === undefined) return nowS
  const seconds = timestamp >= firstMilliseconds ? Math.floor(timestamp / 1000) : timestamp
  return Math.min(nowS, Math.max(nowS - keptDays * day, seconds))
}

/**
 * Timings that clients have sent since they were last taken, by endpoint and span. Of the span that is now there are as many as
 * there are endpoints; of the past never more than `maxPast`: one more is refused, so that nobody takes the place of others'.
 */
export class ClientTimings {
  readonly #names: EndpointNames
  readonly #maxPast: number
  #past = 0
  #timings = new Map<string, Timing>()

  constructor(names: EndpointNames, maxPast: number) {
    this.#names = names
    this.#maxPast = maxPast
  }

  /** @returns whether there was a place for it */
  add(entry: TimingEntry, nowS: number): boolean {
    const endpoint = this.#names.of(entry.endpoint, entry.method)
    const at = beginOf(momentOf(entry.timestamp, nowS), smallest)
    const key = `${at} ${endpoint.method} ${endpoint.endpoint}`
    let timing = this.#timings.get(key)
    if (!timing) {
      const isPast = at < beginOf(nowS, smallest)
      if (isPast && this.#past >= this.#maxPast) return false
      if (isPast) this.#past++
      timing = { ...endpoint, source: "client", at, figures: new Figures() }
      this.#timings.set(key, timing)
    }
    const { figures } = timing
    figures.add(entry.response_time_ms * 1000, isError(entry.status_code))
    figures.queries += Math.min(entry.db_queries ?? 0, maxQueries)
    figures.queryUs += Math.min(Math.trunc((entry.db_time_ms ?? 0) * 1000), largestCounted)
    return true
  }

  take(): Timing[] {
    const taken = [...this.#timings.values()]
    this.#timings = new Map()
    this.#past = 0
    return taken
  }
}

/** A row of what is kept: the timings of one endpoint in one span. */
export interface TimingRow extends Endpoint {
  readonly span: number
  readonly at: number
  readonly source: TimingSource
  readonly figures: Figures
}

/** In one order for all processes, so that two that write at once wait for each other but never in a circle. */
export function rowsOf(timings: readonly Timing[]): TimingRow[] {
  const rows = new Map<string, TimingRow>()
  for (const { endpoint, method, source, at, figures } of timings)
    for (const span of spans) {
      const begin = beginOf(at, span)
      const key = `${span} ${begin} ${source} ${method} ${endpoint}`
      const row = rows.get(key)
      if (row) row.figures.merge(figures)
      else {
        const sum = new Figures()
        sum.merge(figures)
        rows.set(key, { span, at: begin, endpoint, method, source, figures: sum })
      }
    }
  return [...rows].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row)
}

/**
 * The last `hours`, from the beginning of a smallest span on: smallest spans up to the first whole hour, hours up to the first
 * whole day, then days. The last of each is the one that is not over.
 */
export function windowOf(hours: number, nowS: number) {
  const from = beginOf(nowS - hours * hour, smallest)
  const hoursFrom = beginOf(from + hour - 1, hour)
  const daysFrom = beginOf(hoursFrom + day - 1, day)
  return { from, hoursFrom, daysFrom }
}
export type TimingWindow = ReturnType<typeof windowOf>

/** Sums over rows, as they are kept. `told`: of how many it was said what they asked a database. */
export interface TimingSums extends Endpoint {
  readonly count: number
  readonly errors: number
  readonly sum_us: number
  readonly min_us: number
  readonly max_us: number
  readonly told: number
  readonly queries: number
  readonly query_us: number
  readonly buckets: readonly number[]
  readonly counts: readonly number[]
}

export interface EndpointStat extends Endpoint {
  count: number
  avg_ms: number
  min_ms: number
  max_ms: number
  p50_ms: number
  p95_ms: number
  p99_ms: number
  error_rate: number
  error_count: number
  avg_queries: number
  avg_query_time_ms: number
}

const rounded = (value: number, decimals: number): number => Number(value.toFixed(decimals))
const inMs = (us: number): number => rounded(us / 1000, 2)

export function statOf(sums: TimingSums): EndpointStat {
  const { endpoint, method, count, errors, min_us, max_us, told, buckets, counts } = sums
  const percentile = (share: number) => inMs(Math.min(max_us, Math.max(min_us, percentileOf(buckets, counts, share))))
  return {
    endpoint,
    method,
    count,
    avg_ms: inMs(sums.sum_us / count),
    min_ms: inMs(min_us),
    max_ms: inMs(max_us),
    p50_ms: percentile(0.5),
    p95_ms: percentile(0.95),
    p99_ms: percentile(0.99),
    error_rate: rounded((100 * errors) / count, 2),
    error_count: errors,
    avg_queries: told === 0 ? 0 : rounded(sums.queries / told, 1),
    avg_query_time_ms: told === 0 ? 0 : inMs(sums.query_us / told),
  }
}
