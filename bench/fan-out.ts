/**
 * What a delivery costs: one message to many sessions, all of one channel. The floor is a bare
 * uWebSockets.js `publish()`, in as many processes as Starling has web workers. Both servers get their
 * posts over HTTP, and send frames of the same length.
 */
import type { BareServer } from "./bare/bare-server.ts"
import type { Harness, Starling } from "./harness.ts"
import type { LoadGroup } from "./load/load-group.ts"
import type { Poster } from "./load/load-process.ts"
import { cpuSince, readCpu } from "./processes.ts"
import type { Parts } from "./processes.ts"
import type { LatencySummary } from "./statistics.ts"
import { alternate, compare, newRun, pause, scale, sum } from "./trials.ts"
import type { Comparison, Extent, Sides } from "./trials.ts"

export const audience = 1_000
export const saturation = 32
/**
 * One message at a time means one every 10 ms at most. Both have to be given the same pace: a
 * server that sends on and on finds its clients awake and its caches warm, and pays for a delivery
 * little more than half of what it costs after a moment of rest.
 */
export const everyMs = 10
const idleSeconds = 3

export interface FanOutRun {
  posts: number
  deliveries: number
  deliveriesPerSecond: number
  /** Microseconds per delivery, user and system: of all server processes, and by part. */
  cpu: number
  cpuByPart: Record<string, number>
  latency: LatencySummary
}

export interface FanOutCase {
  inFlight: number
  runs: Sides<FanOutRun[]>
  cpu: Comparison
  /** Starling's own processes against the bare one's, without PostgreSQL and Redis. */
  cpuOfNode: Comparison
  deliveriesPerSecond: Comparison
  p50: Comparison
  p99: Comparison
}

export interface FanOutResult {
  sessions: number
  /** Web workers, and processes of the bare server. */
  workers: number
  frameBytes: number
  /**
   * Milliseconds of CPU per second that Starling takes with its sessions connected and nothing to
   * do.
   */
  idleCpu: Record<string, number>
  oneAtATime: FanOutCase
  saturated: FanOutCase
}

/** `starling` has so many web workers. */
export async function benchFanOut(
  harness: Harness,
  starling: Starling,
  workers: 1 | 2,
  extent: Extent,
  say: (what: string) => void,
): Promise<FanOutResult> {
  const { tokens, posters: authors } = harness.population.audience
  const posters = authors.slice(0, saturation)
  const clients = harness.startLoadGroup()
  const addresses = ["127.0.0.11", "127.0.0.12"]
  say(`connecting ${audience} sessions`)
  await clients.loadGroup.ask("connect", { url: starling.gatewayUrl, tokens, addresses, maxConcurrent: 64 })
  const poster = posters[0]!
  const { frame } = await clients.loadGroup.ask("sample", { url: starling.url, poster, run: newRun() })
  const bare = await startBare(harness, workers, frame, { posters, addresses })
  const frameBytes = Buffer.byteLength(frame)

  const before = readCpu(starling.parts)
  await pause(idleSeconds)
  const idleCpu = scale(cpuSince(starling.parts, before), 1 / 1_000 / idleSeconds)

  const measureBoth = async (inFlight: number): Promise<FanOutCase> => {
    const sides = {
      bare,
      starling: { loadGroup: clients.loadGroup, urls: [starling.url], posters, parts: starling.parts as Parts },
    }
    const load = ({ loadGroup, urls: [url, ...mirrors], posters }: Side, seconds: number) => {
      const pace = inFlight === 1 ? everyMs : 0
      return loadGroup.ask("fanOut", { url: url!, mirrors, posters, inFlight, everyMs: pace, seconds, run: newRun() })
    }
    const measure = async (side: Side): Promise<FanOutRun> => {
      const before = readCpu(side.parts)
      const { posts, deliveries, seconds, latency } = await load(side, extent.seconds)
      const cpuByPart = scale(cpuSince(side.parts, before), 1 / deliveries)
      const deliveriesPerSecond = deliveries / seconds
      return { posts, deliveries, deliveriesPerSecond, cpu: sum(cpuByPart), cpuByPart, latency }
    }
    for (const side of [sides.bare, sides.starling]) await load(side, extent.warmUpSeconds)
    const runs = await alternate(extent.runs, {
      bare: () => measure(sides.bare),
      starling: () => measure(sides.starling),
    })
    const of = (value: (run: FanOutRun) => number) => compare(runs, value, value)
    return {
      inFlight,
      runs,
      cpu: of(run => run.cpu),
      cpuOfNode: of(run => run.cpuByPart["node"]!),
      deliveriesPerSecond: of(run => run.deliveriesPerSecond),
      p50: of(run => run.latency.p50),
      p99: of(run => run.latency.p99),
    }
  }
  // This one first: the other has too few messages for the code to get compiled.
  say(`fan-out, ${saturation} posts in flight`)
  const saturated = await measureBoth(saturation)
  say("fan-out, one message at a time")
  const oneAtATime = await measureBoth(1)

  await clients.stop()
  await bare.stop()
  return { sessions: audience, workers, frameBytes, idleCpu, oneAtATime, saturated }
}

interface Side {
  readonly loadGroup: LoadGroup
  /** Where posts go: each to all of them. */
  readonly urls: readonly string[]
  readonly posters: Poster[]
  readonly parts: Parts
}

/**
 * Bare servers that share the audience evenly. Of two each gets every post, from the client: that
 * is at least as cheap as a word from one to the other.
 */
async function startBare(
  harness: Harness,
  processes: number,
  frame: string,
  clients: { posters: readonly Poster[]; addresses: string[] },
): Promise<Side & { stop: () => Promise<void> }> {
  const { loadGroup, stop } = harness.startLoadGroup()
  const posters = clients.posters.map(({ token }): Poster => ({ path: "/messages", token }))
  const servers: BareServer[] = []
  const urls: string[] = []
  for (let i = 0; i < processes; i++) {
    const server = await harness.startBare("publish", [frame])
    const url = `http://127.0.0.1:${server.port}`
    servers.push(server)
    urls.push(url)
    const tokens = Array.from({ length: audience / processes }, () => null)
    const gateway = `ws://127.0.0.1:${server.port}/gateway`
    await loadGroup.ask("connect", { url: gateway, tokens, addresses: clients.addresses, maxConcurrent: 64 })
    if (i > 0) continue
    const sample = await loadGroup.ask("sample", { url, poster: posters[0]!, run: newRun() })
    const [bytes, bareBytes] = [frame, sample.frame].map(text => Buffer.byteLength(text))
    if (bytes !== bareBytes) throw new Error(`frames differ in length: ${bytes} and ${bareBytes} bytes`)
  }
  return {
    loadGroup,
    urls,
    posters,
    parts: { node: servers.map(({ pid }) => pid) },
    async stop() {
      await stop()
      for (const server of servers) await server.stop()
    },
  }
}
