/**
 * What it costs to be told who one is: a token is looked up, limits are counted, the account is
 * read. The floor is a bare server that answers as many bytes.
 */
import { routeRateLimits } from "../../src/contract/core/limits.ts"
import type { Harness } from "../harness.ts"
import { idleCpu } from "../posts.ts"
import { cpuSince, readCpu } from "../processes.ts"
import type { Parts } from "../processes.ts"
import type { LatencySummary } from "../statistics.ts"
import { alternate, compare, pause, scale, sum } from "../trials.ts"
import type { Comparison, Sides } from "../trials.ts"
import { mePath } from "./people.ts"

/** `keepsConnection`: all that somebody asks goes over one connection, and so to one worker. */
const ways = [
  { inFlight: 1, keepsConnection: false },
  { inFlight: 32, keepsConnection: false },
  { inFlight: 32, keepsConnection: true },
] as const
type Way = (typeof ways)[number]
const maxInFlight = 32
/** Spread over the workers by chance. */
const connections = 64
/** So many people ask in turn, as often as they may in a minute; then others do. */
const peopleAtATime = 50
const { requests, burst, seconds: window } = routeRateLimits.get("GET /users/@me")!
/** Half: another worker may hold a lease on a third of what is left, and a sample and a first look are taken, too. */
export const timesEach = Math.floor((requests + burst) / 2)

const firstLookSeconds = 120

export interface MeExtent {
  readonly runs: number
  readonly warmUpSeconds: number
  readonly seconds: number
  /** How long an idle server is looked at, after as long a rest. */
  readonly idleSeconds: number
}

export interface MeRun {
  readonly gets: number
  readonly perSecond: number
  /** Microseconds per GET, user and system: of all server processes, and by part. */
  readonly cpu: number
  readonly cpuByPart: Record<string, number>
  /** The same without what an idle server takes in that time. */
  readonly cpuAboveIdle: number
  readonly latency: LatencySummary
}

export interface MeCase {
  readonly limits: "on" | "off"
  readonly inFlight: number
  /** Absent from what was kept before. */
  readonly keepsConnection?: boolean
  readonly people: number
  readonly bytes: number
  readonly runs: Sides<MeRun[]>
  readonly cpu: Comparison
  readonly cpuAboveIdle: Comparison
  readonly perSecond: Comparison
  readonly p50: Comparison
  readonly p99: Comparison
}

export async function benchMe(harness: Harness, extent: MeExtent, say: (what: string) => void): Promise<MeCase[]> {
  const cases: MeCase[] = []
  for (const limits of ["on", "off"] as const) cases.push(...(await benchWith(limits, harness, extent, say)))
  return cases
}

async function benchWith(
  limits: MeCase["limits"],
  harness: Harness,
  extent: MeExtent,
  say: (what: string) => void,
): Promise<MeCase[]> {
  const { tokens } = harness.population.registered[2]!
  const starling = await harness.startStarling({ RATE_LIMITS: limits })
  const clients = harness.startLoadGroup()
  try {
    const sample = await fetch(`${starling.url}${mePath}`, { headers: { Authorization: `Bearer ${tokens[0]}` } })
    const body = await sample.text()
    if (sample.status !== 200) throw new Error(`GET ${mePath}: ${sample.status} ${body}`)
    const bare = await harness.startBare("me", [body])
    const sides = {
      bare: { url: `http://127.0.0.1:${bare.port}`, path: "/users/@me", parts: { node: [bare.pid] } as Parts },
      starling: { url: starling.url, path: mePath, parts: starling.parts as Parts },
    }
    say(`nothing, for comparison, limits ${limits}`)
    await pause(extent.idleSeconds)
    const idle = { bare: { node: 0 }, starling: await idleCpu(starling.parts, extent.idleSeconds) }
    const allowance = new Allowance(limits === "on" ? tokens.length * timesEach : Infinity)
    const asking = { tokens, atATime: peopleAtATime, connections }
    let asked = 0
    /** What may be asked now; waits until that is much. */
    const mayAsk = (side: keyof typeof sides) => (side === "starling" ? allowance.next() : Infinity)
    const load = async (side: keyof typeof sides, allowed: number, way: Way, seconds: number) => {
      const { url, path } = sides[side]
      const isCounted = side === "starling"
      // Infinity is no JSON.
      const most = Math.min(allowed, 1e9)
      const input = { ...asking, url, path, timesEach, first: asked, ...way, seconds, most }
      const done = await clients.loadGroup.ask("gets", input)
      if (isCounted) {
        asked += done.gets
        allowance.spend(done.gets)
      }
      return done
    }
    const measure = async (side: keyof typeof sides, way: Way): Promise<MeRun> => {
      const { parts } = sides[side]
      const allowed = await mayAsk(side)
      const before = readCpu(parts)
      const { gets, seconds, latency } = await load(side, allowed, way, extent.seconds)
      const cpuByPart = scale(cpuSince(parts, before), 1 / gets)
      const cpu = sum(cpuByPart)
      const cpuAboveIdle = cpu - (sum(idle[side]) * seconds) / gets
      return { gets, perSecond: gets / seconds, cpu, cpuByPart, cpuAboveIdle, latency }
    }

    say(`everybody once, limits ${limits}`)
    await clients.loadGroup.ask("gets", {
      ...asking,
      url: sides.starling.url,
      path: mePath,
      timesEach: 1,
      first: 0,
      most: tokens.length,
      inFlight: maxInFlight,
      seconds: firstLookSeconds,
    })
    allowance.spend(tokens.length)
    const cases: MeCase[] = []
    // Without limits it does not matter which worker is asked.
    for (const way of ways.filter(({ keepsConnection }) => limits === "on" || !keepsConnection)) {
      const { inFlight, keepsConnection } = way
      say(
        `GET /users/@me, limits ${limits}, ${inFlight} in flight${keepsConnection ? ", each over a connection of their own" : ""}`,
      )
      for (const side of ["bare", "starling"] as const) await load(side, await mayAsk(side), way, extent.warmUpSeconds)
      const runs = await alternate(extent.runs, {
        bare: () => measure("bare", way),
        starling: () => measure("starling", way),
      })
      const of = (value: (run: MeRun) => number) => compare(runs, value, value)
      cases.push({
        limits,
        inFlight,
        keepsConnection,
        people: tokens.length,
        bytes: Buffer.byteLength(body),
        runs,
        cpu: of(run => run.cpu),
        cpuAboveIdle: of(run => run.cpuAboveIdle),
        perSecond: of(run => run.perSecond),
        p50: of(run => run.latency.p50),
        p99: of(run => run.latency.p99),
      })
    }
    await bare.stop()
    return cases
  } finally {
    await clients.stop()
    await starling.stop()
  }
}

/** Of requests in any stretch of the limit's window, so that nobody is refused. */
class Allowance {
  readonly #maxRequests: number
  readonly #spent: { at: number; count: number }[] = []

  constructor(maxRequests: number) {
    this.#maxRequests = maxRequests
  }

  /** @returns how many there may be next; waits where that would be few */
  async next(): Promise<number> {
    for (;;) {
      const after = performance.now() - (window + 1) * 1_000
      const recent = this.#spent.reduce((sum, { at, count }) => (at > after ? sum + count : sum), 0)
      if (recent <= this.#maxRequests / 2) return this.#maxRequests - recent
      await pause(1)
    }
  }

  spend(count: number): void {
    this.#spent.push({ at: performance.now(), count })
  }
}
