import type { WorkerHoldings } from "../../observability/debug.ts"

/** What `/debug` says of a web worker, as far as it is shown. */
interface Shown extends WorkerHoldings {
  readonly process?: { readonly pid: number; readonly cpu_seconds: number; readonly memory_bytes: number }
  readonly gateway?: {
    readonly connections: number
    readonly sessions: Readonly<Record<"live" | "reading" | "detached", number>>
    readonly log: { readonly waiting: number }
    readonly messages: { readonly delivered: number; readonly seconds: number }
    readonly slow_sockets: readonly SlowSocket[]
  }
  readonly homes?: {
    readonly loaded: number
    readonly commands: number
    readonly commits: { readonly stuck_ms: number }
    readonly publication: { readonly stuck_ms: number }
    readonly hot: readonly HotHome[]
  }
  readonly slowest_requests?: readonly SlowRequest[]
}
interface SlowSocket {
  readonly buffered_bytes: number
  readonly behind_seconds: number
  readonly connected_seconds: number
}
interface HotHome {
  readonly home: string
  readonly kind: string
  readonly turns_per_second: number
  readonly waiting: number
}
interface SlowRequest {
  readonly method: string
  readonly route: string
  readonly status: number
  readonly seconds: number
  readonly ended_at: string
}

/** One look at the processes of a host. */
export interface Look {
  /** Monotonic. */
  readonly atMs: number
  readonly workers: readonly Shown[]
  readonly missing: number
}

/** @param address of the metrics port */
export async function lookAt(address: string): Promise<Look> {
  const reply = await fetch(`${address}/debug`, { signal: AbortSignal.timeout(5_000) }).catch((cause: unknown) => {
    throw new Error(`no server answers on ${address}; it has to run here, with the same METRICS_PORT`, { cause })
  })
  if (!reply.ok) throw new Error(`${address}/debug answers ${reply.status}`)
  const { workers, missing } = (await reply.json()) as Omit<Look, "atMs">
  return { atMs: performance.now(), workers, missing }
}

/** What happened between two looks, by worker, and the few that stand out. */
export function topOf(before: Look, now: Look) {
  const seconds = (now.atMs - before.atMs) / 1000
  const former = new Map(before.workers.map(one => [one.worker, one]))
  const all = <T>(of: (one: Shown) => readonly T[] | undefined) =>
    now.workers.flatMap(one => (of(one) ?? []).map(found => ({ worker: one.worker, ...found })))
  return {
    missing: now.missing,
    workers: now.workers.map(one => {
      const then = former.get(one.worker)
      // Another process stands in the place.
      const isSame = then?.process?.pid === one.process?.pid
      const since = <N extends number>(value: N | undefined, earlier: N | undefined) =>
        isSame && value !== undefined && earlier !== undefined ? value - earlier : undefined
      const delivered = since(one.gateway?.messages.delivered, then?.gateway?.messages.delivered)
      const delay = since(one.gateway?.messages.seconds, then?.gateway?.messages.seconds)
      const cpu = since(one.process?.cpu_seconds, then?.process?.cpu_seconds)
      return {
        worker: one.worker,
        pid: one.process?.pid ?? null,
        cpu_percent: cpu === undefined ? null : round((100 * cpu) / seconds),
        memory_mb: one.process ? Math.round(one.process.memory_bytes / 1e6) : null,
        connections: one.gateway?.connections ?? null,
        sessions: one.gateway ? one.gateway.sessions.live + one.gateway.sessions.reading : null,
        messages_per_second: delivered === undefined ? null : round(delivered / seconds),
        delivery_ms: delivered && delay !== undefined ? round((1000 * delay) / delivered) : null,
        log_waiting: one.gateway?.log.waiting ?? null,
        homes: one.homes?.loaded ?? null,
        commands: one.homes?.commands ?? null,
        stuck_ms: one.homes ? Math.round(Math.max(one.homes.commits.stuck_ms, one.homes.publication.stuck_ms)) : null,
      }
    }),
    hot_homes: byMost(
      all(one => one.homes?.hot),
      ({ turns_per_second }) => turns_per_second,
    ),
    slow_sockets: byMost(
      all(one => one.gateway?.slow_sockets),
      ({ buffered_bytes }) => buffered_bytes,
    ),
    slowest_requests: byMost(
      all(one => one.slowest_requests),
      request => request.seconds,
    ),
  }
}

export type Top = ReturnType<typeof topOf>

const round = (value: number): number => Math.round(value * 10) / 10
const most = 10
const byMost = <T>(all: T[], sizeOf: (one: T) => number): T[] =>
  all.toSorted((a, b) => sizeOf(b) - sizeOf(a)).slice(0, most)

export function topText(top: Top): string {
  const cell = (value: string | number | null) => (value === null ? "–" : String(value))
  const table = (head: readonly string[], rows: readonly (readonly (string | number | null)[])[]) => {
    const cells = [head, ...rows.map(row => row.map(cell))]
    const widths = head.map((_, i) => Math.max(...cells.map(row => row[i]!.length)))
    return cells.map(row =>
      row.map((text, i) => (i === 0 ? text.padEnd(widths[i]!) : text.padStart(widths[i]!))).join("  "),
    )
  }
  const section = (title: string, lines: readonly string[]) => ["", title, ...(lines.length > 1 ? lines : ["none"])]
  return [
    ...table(
      [
        "worker",
        "pid",
        "cpu %",
        "MB",
        "sockets",
        "sessions",
        "msg/s",
        "delivery ms",
        "log",
        "homes",
        "commands",
        "stuck ms",
      ],
      top.workers.map(one => Object.values(one)),
    ),
    ...(top.missing > 0 ? [`${top.missing} do not answer`] : []),
    ...section(
      "hot homes",
      table(
        ["home", "kind", "worker", "turns/s", "waiting"],
        top.hot_homes.map(one => [one.home, one.kind, one.worker, one.turns_per_second, one.waiting]),
      ),
    ),
    ...section(
      "slow sockets",
      table(
        ["worker", "bytes unsent", "behind s", "connected s"],
        top.slow_sockets.map(one => [one.worker, one.buffered_bytes, round(one.behind_seconds), one.connected_seconds]),
      ),
    ),
    ...section(
      "slowest requests of the last minutes",
      table(
        ["route", "status", "ms", "worker", "ended at"],
        top.slowest_requests.map(one => [
          `${one.method} ${one.route}`,
          one.status,
          Math.round(one.seconds * 1000),
          one.worker,
          one.ended_at,
        ]),
      ),
    ),
  ].join("\n")
}
