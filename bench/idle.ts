/**
 * What an idle session costs in memory: how much the server's processes grow from the first hundred sessions to all of them.
 * Every run has a server of its own, as memory that was grown once is not given back. The floor is a bare
 * uWebSockets.js socket with as many topics.
 */
import type { Laboratory } from "./laboratory.ts"
import { cpuSince, readCpu, readMemory } from "./processes.ts"
import type { Parts } from "./processes.ts"
import { alternate, compare, pause, scale, sum } from "./trials.ts"
import type { Comparison, Extent, Sides } from "./trials.ts"

/** Connected before the first look: they load what is there once for all. */
export const firstSessions = 100
/** A user's own and ten servers'. */
const topics = 11
/** A bare server is one process, and a process has descriptors for so many. */
const bareSessionsAtMost = 10_000
const sessionsOfACrowd = 8_000

export interface IdleRun {
  sessions: number
  /** KiB per session: of all server processes, and by part. */
  memory: number
  memoryByPart: Record<string, number>
  connectSeconds: number
  /** Milliseconds of CPU per second with all of them idle, heartbeats answered; and what connecting took per session, in µs. */
  idleCpu: Record<string, number>
  connectCpu: Record<string, number>
}

export interface IdleResult {
  sessions: number
  runs: Sides<IdleRun[]>
  memory: Comparison
  memoryOfNode: Comparison
  /** Milliseconds of CPU per second. */
  idleCpu: Comparison
}

export async function benchIdle(
  laboratory: Laboratory,
  extent: Extent,
  say: (what: string) => void,
): Promise<IdleResult> {
  say(`memory of ${extent.idleSessions} idle sessions, a fresh server each time`)
  const { tokens } = laboratory.population.idlers
  const runs = await alternate(extent.runs, {
    async bare() {
      const bare = await laboratory.startBare("publish")
      const sockets = Math.min(extent.idleSessions, bareSessionsAtMost) + firstSessions
      const url = `ws://127.0.0.1:${bare.port}/gateway?topics=${topics}`
      try {
        return await grow(
          laboratory,
          extent,
          { node: [bare.pid] },
          url,
          Array.from({ length: sockets }, () => null),
        )
      } finally {
        await bare.stop()
      }
    },
    async starling() {
      const starling = await laboratory.startStarling()
      try {
        return await grow(laboratory, extent, starling.parts as Parts, starling.gatewayUrl, tokens)
      } finally {
        await starling.stop()
      }
    },
  })
  return {
    sessions: extent.idleSessions,
    runs,
    memory: compare(runs, ...twice<IdleRun>(run => run.memory)),
    memoryOfNode: compare(runs, ...twice<IdleRun>(run => run.memoryByPart["node"]!)),
    idleCpu: compare(runs, ...twice<IdleRun>(run => sum(run.idleCpu))),
  }
}

const twice = <T>(of: (run: T) => number) => [of, of] as const

async function grow(
  laboratory: Laboratory,
  extent: Extent,
  parts: Parts,
  url: string,
  tokens: (string | null)[],
): Promise<IdleRun> {
  const first = laboratory.startCrowd()
  await first.crowd.ask("connect", {
    url,
    tokens: tokens.slice(0, firstSessions),
    addresses: ["127.0.0.20"],
    atOnce: 16,
  })
  const before = await steadyMemory(parts, extent.settleSeconds)

  const cpuBefore = readCpu(parts)
  const from = performance.now()
  const crowds = [first]
  for (let at = firstSessions; at < tokens.length; at += sessionsOfACrowd) {
    const clients = laboratory.startCrowd()
    crowds.push(clients)
    const addresses = [`127.0.0.${20 + crowds.length}`]
    await clients.crowd.ask("connect", { url, tokens: tokens.slice(at, at + sessionsOfACrowd), addresses, atOnce: 64 })
  }
  const connectSeconds = (performance.now() - from) / 1_000
  const sessions = tokens.length - firstSessions
  const connectCpu = scale(cpuSince(parts, cpuBefore), 1 / sessions)

  const idleFrom = readCpu(parts)
  const after = await steadyMemory(parts, extent.settleSeconds)
  const idleCpu = scale(cpuSince(parts, idleFrom), 1 / 1_000 / extent.settleSeconds)
  // They are killed: sockets that end without a word, as the first hundred and all others of a run do.
  for (const { stop } of crowds) await stop()
  const memoryByPart = Object.fromEntries(
    Object.keys(after).map(name => [name, (after[name]! - before[name]!) / sessions]),
  )
  return { sessions, memory: sum(memoryByPart), memoryByPart, connectSeconds, idleCpu, connectCpu }
}

/** The least of some looks: garbage comes and goes. */
async function steadyMemory(parts: Parts, seconds: number): Promise<Record<string, number>> {
  let least: Record<string, number> | undefined
  for (let i = 0; i < seconds; i++) {
    await pause(1)
    const now = readMemory(parts)
    if (!least || sum(now) < sum(least)) least = now
  }
  return least!
}
