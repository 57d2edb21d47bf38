/** The middle value; of an even number of values the mean of the middle two. */
export function median(values: readonly number[]): number {
  if (values.length === 0) return NaN
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

export function quantile(values: readonly number[], q: number): number {
  if (values.length === 0) return NaN
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))]!
}

/**
 * Where the median of what was measured lies with at least 95 % certainty, whatever its
 * distribution: between the k-th least and the k-th greatest value, since so rarely are fewer than k
 * values of n on one side of it. With fewer than six values that is nowhere certain: all of them.
 */
export function medianInterval(values: readonly number[]): { median: number; from: number; to: number } {
  const sorted = values.toSorted((a, b) => a - b)
  const n = sorted.length
  let chance = 0.5 ** n
  let below = chance
  let k = 0
  for (; k < n / 2 && 2 * below <= 0.05; k++) {
    chance *= (n - k) / (k + 1)
    below += chance
  }
  const at = Math.max(0, k - 1)
  return { median: median(values), from: sorted[at]!, to: sorted[n - 1 - at]! }
}

/** A figure of several runs: the median, and between which values it lay. */
export interface Figure {
  median: number
  least: number
  most: number
}

export function figure(values: readonly number[]): Figure {
  return { median: median(values), least: Math.min(...values), most: Math.max(...values) }
}

export interface LatencySummary {
  count: number
  p50: number
  p99: number
  max: number
}

const step = Math.log(1.01)
const leastMs = 0.01
const buckets = Math.ceil(Math.log(120_000 / leastMs) / step)

/**
 * Milliseconds in buckets that lie 1 % apart: a record costs the same however many there are, and
 * takes no memory.
 */
export class Histogram {
  readonly #counts = new Uint32Array(buckets)
  #count = 0
  #max = 0

  record(ms: number): void {
    const bucket = ms <= leastMs ? 0 : Math.min(buckets - 1, Math.floor(Math.log(ms / leastMs) / step))
    this.#counts[bucket]!++
    this.#count++
    if (ms > this.#max) this.#max = ms
  }

  summary(): LatencySummary {
    return { count: this.#count, p50: this.#quantile(0.5), p99: this.#quantile(0.99), max: this.#max }
  }

  #quantile(q: number): number {
    let left = q * this.#count
    for (let bucket = 0; bucket < buckets; bucket++) {
      left -= this.#counts[bucket]!
      if (left <= 0) return Math.min(leastMs * Math.exp((bucket + 0.5) * step), this.#max)
    }
    return this.#max
  }
}
