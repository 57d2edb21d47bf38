import { statfs } from "node:fs/promises"
import type { FigureBoard, Figures } from "../cluster/figures.ts"
import type { Member } from "../cluster/members.ts"
import { bucketsOf } from "../domain/operators/figures.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import type { MetricJson } from "../observability/instruments.ts"
import type { Clock, Timer } from "../std/clock.ts"
import { within } from "../std/deadline.ts"
import { rounded } from "../std/rounded.ts"

export interface FigureNotesOptions {
  readonly board: FigureBoard
  readonly self: Member
  readonly metrics: Metrics
  /** Where this host keeps what grows. */
  readonly folder: string
  /** Each takes a round trip. */
  readonly pings: { readonly postgres: () => Promise<unknown>; readonly redis: () => Promise<unknown> }
  /** Seconds that the oldest job waits; null: none does. Only job workers know. */
  readonly oldestJob?: () => Promise<number | null>
  readonly spanSeconds: number
  readonly clock: Clock
  readonly log: Log
}

/** Milliseconds after the end of a span at which it is noted: a timer may be a little early. */
const lateMs = 1_000
/** Milliseconds that a measurement may take. */
const measureMs = 2_000

/** What is counted since the process began, by the names of the samples. */
interface Totals {
  requests: number
  errors: number
  messages: number
  deliveries: number
  lags: readonly number[]
}

/** Adds what this process does to the figures of all, once per span. What cannot be noted is added to the next. */
export class FigureNotes {
  readonly #options: FigureNotesOptions
  readonly #startedAtMs: number
  #timer: Timer | undefined
  #before: Totals = { requests: 0, errors: 0, messages: 0, deliveries: 0, lags: [] }
  #cpu = process.cpuUsage()
  #cpuAtMs: number
  #isStopped = false

  constructor(options: FigureNotesOptions) {
    this.#options = options
    this.#startedAtMs = options.clock.now()
    this.#cpuAtMs = options.clock.monotonic()
    this.#wait()
  }

  stop(): void {
    this.#isStopped = true
    this.#timer?.stop()
  }

  #wait(): void {
    if (this.#isStopped) return
    const { clock, spanSeconds, log } = this.#options
    const spanMs = spanSeconds * 1_000
    const due = spanMs - (clock.now() % spanMs) + lateMs
    this.#timer = clock.after(due, () => {
      this.#note()
        .catch((error: unknown) => log.debug({ err: error }, "figures not noted"))
        .finally(() => this.#wait())
        .catch(() => {})
    })
  }

  async #note(): Promise<void> {
    const { board, self, clock, pings, oldestJob, folder } = this.#options
    const span = board.spanAt(clock.now()) - 1
    const [totals, sessions, postgres, redis, disk, job] = await Promise.all([
      this.#totals(),
      this.#sessions(),
      this.#timed(pings.postgres),
      this.#timed(pings.redis),
      diskOf(folder),
      oldestJob?.().catch(() => null),
    ])
    const figures: Figures = {
      sums: { processes: 1, sessions, ...differences(totals, this.#before) },
      peaks: {
        ...(postgres !== undefined && { postgres_ms: postgres }),
        ...(redis !== undefined && { redis_ms: redis }),
        ...(disk.percent !== null && { disk_percent: disk.percent }),
        ...(typeof job === "number" && { oldest_job_seconds: job }),
      },
    }
    const about = { host: self.host, role: self.role, sessions, ...this.#condition() }
    if (this.#isStopped) return
    await board.note(span, figures, self.id, about, clock.now())
    this.#before = totals
  }

  /** How this process is. */
  #condition() {
    const { clock, metrics } = this.#options
    const { user, system } = process.cpuUsage(this.#cpu)
    const sinceMs = Math.max(1, clock.monotonic() - this.#cpuAtMs)
    this.#cpu = process.cpuUsage()
    this.#cpuAtMs = clock.monotonic()
    const loopP99Ms = metrics.figuresLoop.percentile(99) * 1_000
    metrics.figuresLoop.end()
    return {
      uptime_seconds: Math.floor((clock.now() - this.#startedAtMs) / 1000),
      memory_mb: rounded(process.memoryUsage.rss() / 1_048_576),
      cpu_percent: rounded((user + system) / 10 / sinceMs),
      loop_p99_ms: rounded(loopP99Ms),
    }
  }

  async #timed(ping: () => Promise<unknown>): Promise<number | undefined> {
    const { clock } = this.#options
    const startedAt = clock.monotonic()
    const answered = ping().then(
      () => true,
      () => false,
    )
    const isAnswered = await within(measureMs, answered, () => false)
    return isAnswered ? rounded(clock.monotonic() - startedAt) : undefined
  }

  async #sessions(): Promise<number> {
    const states = await this.#metric("starling_gateway_sessions")
    return sum(states, ({ labels }) => labels["state"] === "live" || labels["state"] === "reading")
  }

  async #totals(): Promise<Totals> {
    const [requests, turns, deliveries, lag] = await Promise.all(
      [
        "starling_http_requests_total",
        "starling_homes_turns_total",
        "starling_gateway_deliveries_total",
        "starling_gateway_lag_seconds",
      ].map(name => this.#metric(name)),
    )
    return {
      requests: sum(requests!),
      errors: sum(requests!, ({ labels }) => labels["status"] === "5xx"),
      messages: sum(turns!, ({ labels }) => labels["command"] === "createMessage"),
      deliveries: sum(deliveries!),
      lags: bucketsOf(lag!.filter(({ labels }) => "le" in labels).map(({ value }) => value)),
    }
  }

  /** One metric alone: to read all of them would end a period of those that tell of a period. */
  async #metric(name: string): Promise<MetricJson["values"]> {
    const metric = this.#options.metrics.registry.getSingleMetric(name)
    return ((await metric?.get()) as unknown as MetricJson | undefined)?.values ?? []
  }
}

type Sample = MetricJson["values"][number]
const sum = (samples: readonly Sample[], counts: (sample: Sample) => boolean = () => true): number =>
  samples.reduce((total, sample) => total + (counts(sample) ? sample.value : 0), 0)

/** By the names of the samples; what is nothing is left out. */
function differences({ lags, ...totals }: Totals, before: Totals): Record<string, number> {
  const entries = [
    ...Object.entries(totals).map(([name, value]) => [name, value - before[name as keyof typeof totals]] as const),
    ...lags.map((value, i) => [`lag${i}`, value - (before.lags[i] ?? 0)] as const),
  ]
  return Object.fromEntries(entries.filter(([, value]) => value > 0))
}

/** How full the file system is on which a folder stands. */
export async function diskOf(
  folder: string,
): Promise<{ free_bytes: number | null; total_bytes: number | null; percent: number | null }> {
  try {
    const { bsize, blocks, bavail, bfree } = await statfs(folder)
    const used = blocks - bfree
    const percent = used + bavail === 0 ? null : rounded((100 * used) / (used + bavail))
    return { free_bytes: bavail * bsize, total_bytes: blocks * bsize, percent }
  } catch {
    return { free_bytes: null, total_bytes: null, percent: null }
  }
}
