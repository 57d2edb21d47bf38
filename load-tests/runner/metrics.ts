/** Metrics and thresholds of a scenario, as k6 counts them. */
export type MetricType = "counter" | "rate" | "trend"
export type Values = Record<string, number>
export type Threshold = string | { threshold: string; abortOnFail?: boolean; delayAbortEval?: string }
type Tags = Readonly<Record<string, unknown>>

class Metric {
  readonly type: MetricType
  /** Of a trend, every value; of the others nothing. */
  readonly #values: number[] = []
  #count = 0
  #passes = 0

  constructor(type: MetricType) {
    this.type = type
  }

  get isSeen(): boolean {
    return this.#count > 0
  }

  add(value: number): void {
    if (this.type === "trend") this.#values.push(value)
    if (this.type === "rate" && value !== 0) this.#passes++
    this.#count += this.type === "counter" ? value : 1
  }

  /** Names are those of k6's summary and thresholds. */
  values(percentiles: readonly number[], seconds: number): Values {
    if (this.type === "counter") return { count: this.#count, rate: this.#count / seconds }
    if (this.type === "rate")
      return {
        rate: this.#count === 0 ? 0 : this.#passes / this.#count,
        passes: this.#passes,
        fails: this.#count - this.#passes,
      }
    const sorted = Float64Array.from(this.#values).toSorted()
    const at = (percent: number) => {
      const place = (percent / 100) * (sorted.length - 1)
      const below = sorted[Math.floor(place)] ?? 0
      return below + ((sorted[Math.ceil(place)] ?? 0) - below) * (place % 1)
    }
    return {
      count: sorted.length,
      avg: sorted.length === 0 ? 0 : sorted.reduce((sum, value) => sum + value, 0) / sorted.length,
      min: sorted[0] ?? 0,
      med: at(50),
      max: sorted.at(-1) ?? 0,
      ...Object.fromEntries(percentiles.map(percent => [`p(${percent})`, at(percent)])),
    }
  }
}

const comparisons: Record<string, (a: number, b: number) => boolean> = {
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
  "==": (a, b) => a === b,
  "!=": (a, b) => a !== b,
}

interface Limit {
  readonly metric: string
  readonly text: string
  readonly stat: string
  readonly holds: (value: number) => boolean
  /** Milliseconds after the start from which on it ends the run; undefined where it does not. */
  readonly endsFromMs: number | undefined
}

function parse(metric: string, threshold: Threshold): Limit {
  const about = typeof threshold === "string" ? { threshold } : threshold
  const found = /^\s*(count|rate|avg|min|max|med|p\(\d+(?:\.\d+)?\))\s*(<=|>=|==|!=|<|>)\s*(\d+(?:\.\d+)?)\s*$/.exec(
    about.threshold,
  )
  if (!found) throw new Error(`a threshold that is not understood: ${metric} ${about.threshold}`)
  const [, stat, comparison, bound] = found
  return {
    metric,
    text: about.threshold,
    stat: stat!,
    holds: value => comparisons[comparison!]!(value, Number(bound)),
    endsFromMs: about.abortOnFail ? toMs(about.delayAbortEval ?? "0s") : undefined,
  }
}

/** Of a k6 duration, such as `1m30s`. */
export function toMs(text: string | undefined): number {
  if (text === undefined) return 0
  const units: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)]
  if (parts.map(([part]) => part).join("") !== text) throw new Error(`a duration that is not understood: ${text}`)
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * units[unit!]!, 0)
}

export class Metrics {
  readonly #metrics = new Map<string, Metric>()
  /** By metric: the parts of it, by tag, that thresholds name, such as `http_req_duration{name:post}`. */
  readonly #parts = new Map<string, { name: string; tag: string; value: string }[]>()
  readonly #limits: readonly Limit[]
  readonly #percentiles: readonly number[]

  constructor(thresholds: Readonly<Record<string, readonly Threshold[]>>, trendStats: readonly string[]) {
    this.#limits = Object.entries(thresholds).flatMap(([metric, list]) => list.map(one => parse(metric, one)))
    const stats = [...trendStats, ...this.#limits.map(({ stat }) => stat)]
    this.#percentiles = [...new Set(stats.flatMap(stat => /^p\((.+)\)$/.exec(stat)?.[1] ?? []))].map(Number)
    for (const name of Object.keys(thresholds)) {
      const [, metric, tag, value] = /^(\w+)\{(\w+):([^}]*)\}$/.exec(name) ?? []
      if (metric) this.#parts.set(metric, [...(this.#parts.get(metric) ?? []), { name, tag: tag!, value: value! }])
    }
  }

  add(name: string, type: MetricType, value: number, tags: Tags = {}): void {
    this.#of(name, type).add(value)
    for (const part of this.#parts.get(name) ?? [])
      if (String(tags[part.tag]) === part.value) this.#of(part.name, type).add(value)
  }

  #of(name: string, type: MetricType): Metric {
    const metric = this.#metrics.get(name) ?? new Metric(type)
    this.#metrics.set(name, metric)
    return metric
  }

  /** As `handleSummary` is given them. A limit of what was not seen holds, as there is nothing to hold it against. */
  summary(afterMs: number) {
    const shown = [...this.#metrics].map(([name, metric]) => {
      const values = metric.values(this.#percentiles, afterMs / 1_000)
      const limits = this.#limits.filter(limit => limit.metric === name)
      const thresholds = Object.fromEntries(
        limits.map(({ text, stat, holds }) => [text, { ok: !metric.isSeen || holds(values[stat] ?? 0) }]),
      )
      return [name, { type: metric.type, values, ...(limits.length > 0 && { thresholds }) }] as const
    })
    return Object.fromEntries(shown)
  }

  /** Whether a limit is crossed that ends the run. */
  endsAt(afterMs: number): boolean {
    return this.#limits.some(({ metric: name, stat, holds, endsFromMs }) => {
      const metric = this.#metrics.get(name)
      if (endsFromMs === undefined || afterMs < endsFromMs || !metric?.isSeen) return false
      return !holds(metric.values(this.#percentiles, afterMs / 1_000)[stat] ?? 0)
    })
  }
}
