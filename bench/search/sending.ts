/**
 * What the index costs those who send: as fast as it goes with it and without it, and at a pace
 * that leaves capacity.
 */
import type { Harness } from "../harness.ts"
import { deferredWork, idleCpu } from "../posts.ts"
import { cpuSince, readCpu, webWorkersOf } from "../processes.ts"
import type { LatencySummary } from "../statistics.ts"
import { alternate, newRun, pause, scale, sum, type Sides } from "../trials.ts"

export interface SendingRun {
  readonly postsPerSecond: number
  readonly latency: LatencySummary
  /** Microseconds per post of all server processes while it was sent, and with what came after. */
  readonly cpu: number
  readonly cpuAfterwards: number
  /** The same of PostgreSQL alone, together. */
  readonly cpuOfPostgres: number
  /** Of the web workers alone, while it was sent: job workers keep the index. */
  readonly cpuOfWebWorkers: number
}
export interface SendingResult {
  readonly inFlight: number
  /** "bare": without the index. */
  readonly runs: Sides<SendingRun[]>
}
export interface SendingExtent {
  readonly runs: number
  readonly seconds: number
  readonly warmUpSeconds: number
}

export async function benchSending(
  harness: Harness,
  extent: SendingExtent,
  inFlight: number,
  everyMs: number,
  say: (what: string) => void,
): Promise<SendingResult> {
  say(`posts, ${inFlight} in flight, with the index and without`)
  const measure = async (isIndexed: boolean): Promise<SendingRun> => {
    const starling = await harness.startStarling({ STARLING_SEARCH_ENABLED: isIndexed ? "on" : "off" })
    const clients = harness.startLoadGroup()
    const load = (seconds: number) =>
      clients.loadGroup.ask("posts", {
        url: starling.url,
        posters: harness.population.authors,
        inFlight,
        everyMs,
        seconds,
        run: newRun(),
      })
    const idle = await idleCpu(starling.parts)
    await load(extent.warmUpSeconds)
    await pause(2)
    const before = readCpu(starling.parts)
    const webWorkers = { web: webWorkersOf(starling.parts.node) }
    const webBefore = readCpu(webWorkers)
    const { posts, seconds, latency } = await load(extent.seconds)
    const used = scale(cpuSince(starling.parts, before), 1 / posts)
    const cpuOfWebWorkers = cpuSince(webWorkers, webBefore).web / posts
    const deferred = scale(await deferredWork(harness.databaseUrl, starling.parts, idle), 1 / posts)
    const [cpu, cpuAfterwards] = [sum(used), sum(deferred)]
    const cpuOfPostgres = used.postgres + deferred["postgres"]!
    await clients.stop()
    await starling.stop()
    const run = { postsPerSecond: posts / seconds, latency, cpu, cpuAfterwards, cpuOfPostgres, cpuOfWebWorkers }
    say(
      `${isIndexed ? "with" : "without"}: ${run.postsPerSecond.toFixed(0)}/s, p50 ${latency.p50.toFixed(1)} ms, p99 ${latency.p99.toFixed(1)} ms, ${cpu.toFixed(0)} + ${cpuAfterwards.toFixed(0)} µs`,
    )
    return run
  }
  const runs = await alternate(extent.runs, { bare: () => measure(false), starling: () => measure(true) })
  return { inFlight, runs }
}
