/**
 * What a server takes while nothing happens: with no session, and with all of them connected and
 * their heartbeats answered, each as often as the server asks for.
 */
import type { Harness } from "../harness.ts"
import { cpuSince, readCpu } from "../processes.ts"
import { pause, scale } from "../trials.ts"

const sessionsOfALoadGroup = 7_500
/** What was only needed to connect is gone: presence is told, outbox rows are swept after 15 s. */
const settleSeconds = 20

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
    const starling = await harness.startStarling()
    const loadGroups: { stop: () => Promise<void> }[] = []
    const measure = async () => {
      await pause(extent.settleSeconds)
      const before = readCpu(starling.parts)
      await pause(extent.seconds)
      return scale(cpuSince(starling.parts, before), 1 / 1_000 / extent.seconds)
    }
    try {
      say(`nothing happens, with no session`)
      const empty = await measure()
      say(`nothing happens, with ${tokens.length} sessions`)
      for (let at = 0; at < tokens.length; at += sessionsOfALoadGroup) {
        const clients = harness.startLoadGroup()
        loadGroups.push(clients)
        await clients.loadGroup.ask("connect", {
          url: starling.gatewayUrl,
          tokens: tokens.slice(at, at + sessionsOfALoadGroup),
          addresses: [`127.0.0.${120 + loadGroups.length}`],
          maxConcurrent: 64,
        })
      }
      runs.push({ empty, connected: await measure() })
    } finally {
      for (const { stop } of loadGroups) await stop()
      await starling.stop()
    }
  }
  return { sessions: tokens.length, runs }
}
