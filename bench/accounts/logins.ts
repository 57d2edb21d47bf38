/**
 * What a sign-in costs beside the hash that it cannot do without. The floor is a bare server that
 * compares the password with the same hash, as many at once.
 */
import { availableParallelism } from "node:os"
import type { Harness } from "../harness.ts"
import { threadPoolSize } from "../harness.ts"
import { idleCpu } from "../posts.ts"
import { cpuSince, readCpu } from "../processes.ts"
import type { Parts } from "../processes.ts"
import type { LatencySummary } from "../statistics.ts"
import { alternate, compare, pause, scale, sum } from "../trials.ts"
import type { Comparison, Sides } from "../trials.ts"
import { loginPath, password, webWorkers } from "./people.ts"

/** All web workers together take half of the cores for hashes, each at least one. */
export const maxConcurrentHashes = webWorkers * Math.max(1, Math.floor(availableParallelism() / 2 / webWorkers))
/** Enough that no worker waits for the next: the kernel spreads connections by chance. */
const inFlight = 4 * maxConcurrentHashes

export interface LoginsExtent {
  readonly runs: number
  readonly warmUpSeconds: number
  readonly seconds: number
  /** How long an idle server is looked at, after as long a rest. */
  readonly idleSeconds: number
}

export interface LoginsRun {
  readonly signIns: number
  readonly perSecond: number
  /** Microseconds per sign-in, user and system: of all server processes, and by part. */
  readonly cpu: number
  readonly cpuByPart: Record<string, number>
  /** The same without what an idle server takes in that time. */
  readonly cpuAboveIdle: number
  readonly latency: LatencySummary
}

export interface LoginsCase {
  /** Of those who sign in. */
  readonly sessions: "below the limit" | "at the limit"
  readonly runs: Sides<LoginsRun[]>
  readonly cpu: Comparison
  readonly cpuAboveIdle: Comparison
  readonly perSecond: Comparison
  readonly p50: Comparison
}

export interface LoginsResult {
  readonly inFlight: number
  readonly maxConcurrentHashes: number
  readonly cases: LoginsCase[]
}

export async function benchLogins(
  harness: Harness,
  { passwordHash }: { passwordHash: string },
  extent: LoginsExtent,
  say: (what: string) => void,
): Promise<LoginsResult> {
  const [few, full] = harness.population.registered
  const starling = await harness.startStarling()
  const clients = harness.startLoadGroup()
  try {
    const body = JSON.stringify({ username: few!.usernames[0], password })
    const headers = { "Content-Type": "application/json" }
    const answer = await fetch(`${starling.url}${loginPath}`, { method: "POST", headers, body })
    if (answer.status !== 200) throw new Error(`POST ${loginPath}: ${answer.status} ${await answer.text()}`)
    const bare = await harness.startBare("logins", [passwordHash, String(maxConcurrentHashes), await answer.text()], {
      UV_THREADPOOL_SIZE: threadPoolSize,
    })
    const sides = {
      bare: { url: `http://127.0.0.1:${bare.port}`, path: "/auth/login", parts: { node: [bare.pid] } as Parts },
      starling: { url: starling.url, path: loginPath, parts: starling.parts as Parts },
    }
    say("nothing, for comparison")
    await pause(extent.idleSeconds)
    const idle = { bare: { node: 0 }, starling: await idleCpu(starling.parts, extent.idleSeconds) }
    const measureCase = async (sessions: LoginsCase["sessions"], usernames: string[]): Promise<LoginsCase> => {
      say(`sign-ins, ${inFlight} in flight, sessions ${sessions}`)
      let first = 1
      const load = async (side: keyof typeof sides, seconds: number) => {
        const { url, path } = sides[side]
        const input = { url, path, usernames, password, first, inFlight, everyMs: 0, seconds }
        const done = await clients.loadGroup.ask("signIn", input)
        const signIns = done.latency.count
        if (side === "starling") first += signIns
        return { ...done, signIns }
      }
      const measure = async (side: keyof typeof sides): Promise<LoginsRun> => {
        const { parts } = sides[side]
        const before = readCpu(parts)
        const { signIns, seconds, latency } = await load(side, extent.seconds)
        const cpuByPart = scale(cpuSince(parts, before), 1 / signIns)
        const cpu = sum(cpuByPart)
        const cpuAboveIdle = cpu - (sum(idle[side]) * seconds) / signIns
        return { signIns, perSecond: signIns / seconds, cpu, cpuByPart, cpuAboveIdle, latency }
      }
      for (const side of ["bare", "starling"] as const) await load(side, extent.warmUpSeconds)
      const runs = await alternate(extent.runs, {
        bare: () => measure("bare"),
        starling: () => measure("starling"),
      })
      const of = (value: (run: LoginsRun) => number) => compare(runs, value, value)
      return {
        sessions,
        runs,
        cpu: of(run => run.cpu),
        cpuAboveIdle: of(run => run.cpuAboveIdle),
        perSecond: of(run => run.perSecond),
        p50: of(run => run.latency.p50),
      }
    }
    const cases = [
      await measureCase("below the limit", few!.usernames),
      await measureCase("at the limit", full!.usernames),
    ]
    await bare.stop()
    return { inFlight, maxConcurrentHashes, cases }
  } finally {
    await clients.stop()
    await starling.stop()
  }
}
