import type { routes } from "../../contract/operators/overview.ts"
import { figureSamples, figureSeconds, lagBoundsMs, quantile } from "../../domain/operators/figures.ts"
import type { ServiceNotice } from "../../domain/service/server-status.ts"
import { secondsAt } from "../../std/clock.ts"
import { rounded } from "../../std/rounded.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"

type Unknown = number | null

/** What is known of the whole service beside PostgreSQL. */
export interface FigureSources {
  /** Figures of all processes, span by span, after the last that is known; a span's end is its number by its length. */
  readonly spans: (
    last: number,
  ) => Promise<readonly { readonly number: number; readonly values: Readonly<Record<string, number>> }[]>
  readonly processes: () => Promise<
    readonly { readonly id: string; readonly seenAt: number; readonly about: unknown }[]
  >
  /** Redis: what a round trip takes, and its memory. Fails where it does not answer. */
  readonly redis: () => Promise<{ latencyMs: number; memoryBytes: Unknown; maxMemoryBytes: Unknown }>
  readonly disk: () => Promise<{ free_bytes: Unknown; total_bytes: Unknown; percent: Unknown }>
  readonly jobs: () => Promise<{ waiting: number; active: number; failed: number; oldestSeconds: Unknown }>
  /** Has this worker look at the state of the service at once. */
  readonly lookAtState: () => Promise<void>
}

type OverviewNeeds = Http<"serverStatus" | "operatorOverview"> & { readonly figures: FigureSources }

/** What a process says of itself, see process/figures.ts. */
interface About {
  host: string
  role: "web" | "job"
  uptime_seconds: number
  memory_mb: number
  cpu_percent: number
  loop_p99_ms: number
  sessions: number
}

const noticeOf = ({ state, message, estimated_downtime_seconds, restart_at }: ServiceNotice) => ({
  state,
  message,
  estimated_downtime_seconds,
  restart_at,
})

function sampleOf(number: number, values: Readonly<Record<string, number>>) {
  const lags = Array.from({ length: lagBoundsMs.length + 1 }, (_, i) => values[`lag${i}`] ?? 0)
  const lag = (share: number) => {
    const value = quantile(lags, share)
    return value === null ? null : rounded(value)
  }
  return {
    at: number * figureSeconds,
    processes: values["processes"] ?? 0,
    sessions: values["sessions"] ?? 0,
    requests: values["requests"] ?? 0,
    messages: values["messages"] ?? 0,
    deliveries: values["deliveries"] ?? 0,
    errors: values["errors"] ?? 0,
    lag_p50_ms: lag(0.5),
    lag_p99_ms: lag(0.99),
    postgres_ms: values["postgres_ms"] ?? null,
    redis_ms: values["redis_ms"] ?? null,
    disk_percent: values["disk_percent"] ?? null,
    oldest_job_seconds: values["oldest_job_seconds"] ?? null,
  }
}

/** The service as a whole: its state, and how it is. What does not answer is told as unknown. */
export function operatorOverview({ storage, clock, figures }: OverviewNeeds): Handlers<typeof routes> {
  const { serverStatus, operatorOverview: overview } = storage

  async function postgres() {
    try {
      const startedAt = performance.now()
      const { total, most } = await overview.connections()
      const latency_ms = rounded(performance.now() - startedAt)
      const size_bytes = await overview.size()
      return { ok: true, latency_ms, connections: total, max_connections: most, size_bytes }
    } catch {
      return { ok: false, latency_ms: null, connections: null, max_connections: null, size_bytes: null }
    }
  }

  async function redis() {
    try {
      const { latencyMs, memoryBytes, maxMemoryBytes } = await figures.redis()
      return { ok: true, latency_ms: rounded(latencyMs), memory_bytes: memoryBytes, max_memory_bytes: maxMemoryBytes }
    } catch {
      return { ok: false, latency_ms: null, memory_bytes: null, max_memory_bytes: null }
    }
  }

  async function jobs() {
    try {
      const { oldestSeconds, ...counts } = await figures.jobs()
      return { ...counts, oldest_seconds: oldestSeconds }
    } catch {
      return { waiting: null, active: null, failed: null, oldest_seconds: null }
    }
  }

  const processes = async () =>
    (await figures.processes().catch(() => [])).map(({ id, seenAt, about }) => {
      const { host, role, uptime_seconds, memory_mb, cpu_percent, loop_p99_ms, sessions } = about as About
      return { id, host, role, uptime_seconds, memory_mb, cpu_percent, loop_p99_ms, sessions, seen_at: seenAt }
    })

  return {
    getServerState: async () => noticeOf(await serverStatus.look()),

    async putServerState({ body }) {
      const { state, message = null, estimated_downtime_seconds = null, restart_at = null } = body
      await serverStatus.setState({ state, message, estimated_downtime_seconds, restart_at })
      await figures.lookAtState()
      return { state, message, estimated_downtime_seconds, restart_at }
    },

    async getPoolHealth() {
      const [{ active, idle, total, most, version }, old_connections] = await Promise.all([
        overview.connections(),
        overview.oldConnections(),
      ])
      const waits = overview.waits()
      const utilization = rounded((100 * total) / most)
      return {
        active_connections: active,
        idle_connections: idle,
        total_connections: total,
        max_connections: most,
        min_connections: 0,
        utilization_percent: utilization,
        avg_acquisition_time: waits.total === 0 ? 0 : waits.waitedSeconds / waits.total,
        max_acquisition_time: waits.longestSeconds,
        avg_pool_wait_time: waits.waits === 0 ? 0 : waits.waitedSeconds / waits.waits,
        total_acquisitions: waits.total,
        total_pool_waits: waits.waits,
        old_connections,
        status: utilization >= 90 ? "critical" : utilization >= 75 ? "warning" : "healthy",
        database_type: `PostgreSQL ${version}`,
        timestamp: secondsAt(clock()),
      }
    },

    async getNow({ query: { since } }) {
      const after = since === undefined ? 0 : Math.floor(since / figureSeconds)
      const [spans, ...parts] = await Promise.all([
        figures.spans(after).catch(() => []),
        processes(),
        postgres(),
        redis(),
        figures.disk(),
        jobs(),
      ])
      const [known, ofPostgres, ofRedis, disk, ofJobs] = parts
      return {
        at: secondsAt(clock()),
        every_seconds: figureSeconds,
        samples: spans.slice(-figureSamples).map(({ number, values }) => sampleOf(number, values)),
        processes: known,
        postgres: ofPostgres,
        redis: ofRedis,
        disk,
        jobs: ofJobs,
      }
    },
  }
}
