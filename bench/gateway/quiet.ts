/**
 * What a server takes while nothing happens: with no session, and with all of them connected and
 * their heartbeats answered, each as often as the server asks for. Beside it, in the same minutes:
 * as many sockets of bare servers, as many of these as there are web workers.
 */
import type { Harness } from "../harness.ts"
import { cpuSince, readCpu, webWorkersOf } from "../processes.ts"
import type { Parts } from "../processes.ts"
import { pause, scale } from "../trials.ts"

const sessionsOfALoadGroup = 7_500
/**
 * What was only needed to start or to connect is gone: presence is told, outbox rows are swept after
 * 15 s, and a minute later memory is given back, which is most of what a worker does meanwhile.
 */
const settleSeconds = 90

export interface QuietExtent {
  readonly runs: number
  readonly seconds: number
  readonly settleSeconds: number
  readonly sessions: number
}

export const quietExtent = (isQuick: boolean): QuietExtent =>
  isQuick
    ? { runs: 1, seconds: 1, settleSeconds: 1, sessions: 500 }
    : { runs: 3, seconds: 45, settleSeconds, sessions: 20_000 }

/** Milliseconds of CPU per second, by part. */
export interface QuietRun {
  readonly empty: Record<string, number>
  readonly connected: Record<string, number>
  readonly bare: { readonly empty: number; readonly connected: number }
}

export interface QuietResult {
  readonly sessions: number
  readonly runs: QuietRun[]
}

export async function benchQuiet(
  harness: Harness,
  extent: QuietExtent,
  say: (what: string) => void,
): Promise<QuietResult> {
  const tokens = harness.population.idlers.tokens.slice(0, extent.sessions)
  const runs: QuietRun[] = []
  for (let run = 0; run < extent.runs; run++) {
    await harness.emptyRedis() // who was connected to a server before this one has to be told off
    const starling = await harness.startStarling()
    const loadGroups: { stop: () => Promise<void> }[] = []
    const bare = await Promise.all(webWorkersOf(starling.parts.node).map(() => harness.startBare("heartbeats", [])))
    const parts: Parts = { ...starling.parts, bare: bare.map(({ pid }) => pid) }
    const connect = async (url: string, some: readonly string[]) => {
      for (let at = 0; at < some.length; at += sessionsOfALoadGroup) {
        const clients = harness.startLoadGroup()
        loadGroups.push(clients)
        await clients.loadGroup.ask("connect", {
          url,
          tokens: some.slice(at, at + sessionsOfALoadGroup),
          addresses: [`127.0.0.${120 + loadGroups.length}`],
          maxConcurrent: 64,
        })
      }
    }
    const measure = async () => {
      await pause(extent.settleSeconds)
      const before = readCpu(parts)
      await pause(extent.seconds)
      const { bare: floor = 0, ...ours } = scale(cpuSince(parts, before), 1 / 1_000 / extent.seconds)
      return { floor, ours }
    }
    try {
      say(`nothing happens, with no session`)
      const empty = await measure()
      say(`nothing happens, with ${tokens.length} sessions, and as many bare sockets`)
      await connect(starling.gatewayUrl, tokens)
      const share = Math.ceil(tokens.length / bare.length)
      for (const [i, { port }] of bare.entries())
        await connect(`ws://127.0.0.1:${port}/gateway`, tokens.slice(i * share, (i + 1) * share))
      const connected = await measure()
      runs.push({
        empty: empty.ours,
        connected: connected.ours,
        bare: { empty: empty.floor, connected: connected.floor },
      })
    } finally {
      for (const { stop } of [...loadGroups, starling, ...bare]) await stop()
    }
  }
  return { sessions: tokens.length, runs }
}
