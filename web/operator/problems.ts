import { bytes, duration, milliseconds, number, percent } from "../kit/format.ts"
import { count, t } from "../kit/text.ts"
import type { Now, Sample } from "./wire.ts"

/** Something that is wrong, in words, and what to do about it. */
export interface Problem {
  readonly about: "processes" | "postgres" | "redis" | "disk" | "jobs" | "lag" | "errors" | "loop"
  readonly tone: "warm" | "bad"
  readonly what: string
  readonly todo: string
}

/** From these figures on something is said. */
const bounds = {
  lagMs: [500, 2_000],
  loopMs: [100, 500],
  oldestJobSeconds: [120, 900],
  diskPercent: [80, 92],
  connectionPercent: [75, 90],
  memoryPercent: [80, 92],
  /** Of the requests of the last minute. */
  errorPercent: [0.5, 5],
  silentSeconds: [30, 60],
} as const

const toneOf = (value: number, [warm, bad]: readonly [number, number]): Problem["tone"] | undefined =>
  value >= bad ? "bad" : value >= warm ? "warm" : undefined

const share = (part: number | null, whole: number | null) =>
  part === null || whole === null || whole === 0 ? 0 : (100 * part) / whole

/** The worst first. */
export function problemsOf(now: Now): Problem[] {
  const lastMinute = now.samples.filter(({ at }) => at > now.at - 60)
  const found = [
    ...ofProcesses(now),
    ...ofPostgres(now),
    ...ofRedis(now),
    ...ofDisk(now),
    ...ofJobs(now),
    ...ofLag(lastMinute),
    ...ofErrors(lastMinute),
  ]
  return found.sort((one, other) => Number(other.tone === "bad") - Number(one.tone === "bad"))
}

function* ofProcesses({ at, processes }: Now): Generator<Problem> {
  for (const role of ["web", "job"] as const)
    if (!processes.some(process => process.role === role))
      yield {
        about: "processes",
        tone: "bad",
        what: role === "web" ? t("No web worker reports itself.") : t("No job worker reports itself."),
        todo:
          role === "web"
            ? t("Look in the log for why workers end, and restart the program.")
            : t(
                "Mails, thumbnails, exports and deletions wait until one runs. Look in the log for why it ended, and restart the program.",
              ),
      }
  for (const { id, host, seen_at, loop_p99_ms } of processes) {
    const silent = toneOf(at - seen_at, bounds.silentSeconds)
    if (silent)
      yield {
        about: "processes",
        tone: silent,
        what: t("Process {id} on {host} has said nothing for {time}.", { id, host, time: duration(at - seen_at) }),
        todo: t(
          "It hangs, or its host is away. If it does not come back within a minute another takes over its work; look in the log of its host.",
        ),
      }
    const slow = toneOf(loop_p99_ms, bounds.loopMs)
    if (slow)
      yield {
        about: "loop",
        tone: slow,
        what: t("Process {id} on {host} is slow: its event loop waits {time}.", {
          id,
          host,
          time: milliseconds(loop_p99_ms),
        }),
        todo: t("Too much work for it, or other programs take its core. Start more workers or another host."),
      }
  }
}

function* ofPostgres({ postgres }: Now): Generator<Problem> {
  const { ok, connections, max_connections } = postgres
  if (!ok)
    yield {
      about: "postgres",
      tone: "bad",
      what: t("PostgreSQL does not answer."),
      todo: t(
        "Nothing can be written until it does: requests are answered with 503. Check that it runs, that its disk is not full, and that this host reaches it.",
      ),
    }
  const tone = toneOf(share(connections, max_connections), bounds.connectionPercent)
  if (tone)
    yield {
      about: "postgres",
      tone,
      what: t("PostgreSQL has {n} of {most} connections in use.", { n: connections!, most: max_connections! }),
      todo: t("When none is left, workers cannot start. Raise max_connections, or start fewer workers."),
    }
}

function* ofRedis({ redis }: Now): Generator<Problem> {
  const { ok, memory_bytes, max_memory_bytes } = redis
  if (!ok)
    yield {
      about: "redis",
      tone: "bad",
      what: t("Redis does not answer."),
      todo: t(
        "Nothing is delivered until it does; what was acknowledged is kept. Check that it runs and that this host reaches it.",
      ),
    }
  const tone = toneOf(share(memory_bytes, max_memory_bytes), bounds.memoryPercent)
  if (tone)
    yield {
      about: "redis",
      tone,
      what: t("Redis uses {n} of {most}.", { n: bytes(memory_bytes!), most: bytes(max_memory_bytes!) }),
      todo: t(
        "When it is full it refuses writes, and nothing is delivered. Raise maxmemory, or shorten what is kept for resuming.",
      ),
    }
}

function* ofDisk({ disk, samples, processes }: Now): Generator<Problem> {
  const fullest = samples.findLast(({ disk_percent }) => disk_percent !== null)?.disk_percent ?? 0
  // What is left is known of the host that answers only; its sample may be seconds older.
  const isHere = new Set(processes.map(({ host }) => host)).size < 2 || (disk.percent ?? 0) > fullest - 1
  const full = Math.max(disk.percent ?? 0, fullest)
  const tone = toneOf(full, bounds.diskPercent)
  if (tone)
    yield {
      about: "disk",
      tone,
      what: isHere
        ? t("The disk is {percent} full; {left} are left.", {
            percent: percent(full),
            left: disk.free_bytes === null ? "?" : bytes(disk.free_bytes),
          })
        : t("The disk of another host is {percent} full.", { percent: percent(full) }),
      todo: t(
        "When it is full, uploads and the database stop. Move files to an object store, delete old logs, or take a larger disk.",
      ),
    }
}

function* ofJobs({ jobs }: Now): Generator<Problem> {
  const tone = jobs.oldest_seconds === null ? undefined : toneOf(jobs.oldest_seconds, bounds.oldestJobSeconds)
  if (tone)
    yield {
      about: "jobs",
      tone,
      what: count(jobs.waiting ?? 0, "{n} job waits, for {time}.", "{n} jobs wait, the oldest for {time}.", {
        time: duration(jobs.oldest_seconds!),
      }),
      todo: t(
        "Mails and pictures come late. Start more job workers; if nothing moves, look in the log for jobs that fail.",
      ),
    }
}

function* ofLag(lastMinute: readonly Sample[]): Generator<Problem> {
  const lags = lastMinute.flatMap(({ lag_p99_ms }) => lag_p99_ms ?? [])
  const lag = Math.max(0, ...lags)
  const tone = toneOf(lag, bounds.lagMs)
  if (tone)
    yield {
      about: "lag",
      tone,
      what: t("Events take up to {time} from the commit to the sockets.", { time: milliseconds(lag) }),
      todo: t(
        "Look at the processes below: one that is slow delays all of its sessions. If all are slow, start more workers; if none is, look at the round trips to Redis.",
      ),
    }
}

function* ofErrors(lastMinute: readonly Sample[]): Generator<Problem> {
  const sum = (of: (sample: Sample) => number) => lastMinute.reduce((sum, sample) => sum + of(sample), 0)
  const [errors, requests] = [sum(({ errors }) => errors), sum(({ requests }) => requests)]
  const tone = toneOf(share(errors, Math.max(requests, errors)), bounds.errorPercent)
  if (tone)
    yield {
      about: "errors",
      tone,
      what: count(
        errors,
        "{n} of {requests} requests of the last minute failed.",
        "{n} of {requests} requests of the last minute failed.",
        {
          requests: number(requests),
        },
      ),
      todo: t(
        "Look in the log at the level ERROR: each line has the request id that its client was told. Telemetry says which endpoints it is.",
      ),
    }
}
