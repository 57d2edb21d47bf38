/**
 * What an idle session costs in memory: how much the server's processes grow from the first
 * sessions to all of them, garbage collected before each look. Every run has a server of its own,
 * as memory that was grown once is seldom given back. The floor is a bare uWebSockets.js socket
 * with as many topics.
 */
import type { Harness } from "./harness.ts"
import type { DialectName } from "./load/dialects.ts"
import type { LoadGroup } from "./load/load-group.ts"
import { cpuSince, processesOf, readCpu, readMemory, readShared } from "./processes.ts"
import type { Parts } from "./processes.ts"
import { alternate, compare, pause, scale, sum } from "./trials.ts"
import type { Comparison, Extent, Sides } from "./trials.ts"

/**
 * Connected before the first look: they load what is there once for all, and get the code compiled.
 */
export const firstSessions = 1_000
/** What the first have left by then would not be seen beside all the others. */
const firstRestSeconds = 17
/** A user's own and ten servers'. */
const topics = 11
/** A bare server is one process, and a process has descriptors for so many. */
const bareSessionsAtMost = 10_000
const sessionsOfALoadGroup = 8_000
/** A bare server has nothing that it forgets later. */
const bareRestSeconds = 6
const idleSeconds = 3

export const collecting = { NODE_OPTIONS: `--import ${new URL("./collect-garbage.mjs", import.meta.url).href}` }

export interface IdleRun {
  sessions: number
  /** KiB per session: of all server processes, and by part. */
  memory: number
  memoryByPart: Record<string, number>
  /** By how much PostgreSQL's cache of its own files grew meanwhile, which is in neither. */
  cache: number
  /** What connecting took: seconds of all of them, microseconds of CPU of each. */
  connectSeconds: number
  connectCpu: Record<string, number>
  /** Milliseconds of CPU per second when all are connected and answered their heartbeats. */
  idleCpu: Record<string, number>
}

export interface IdleResult {
  sessions: number
  runs: Sides<IdleRun[]>
  memory: Comparison
  memoryOfNode: Comparison
  /** With PostgreSQL's cache. */
  memoryWithCache: Comparison
  connectCpu: Comparison
}

export async function benchIdle(harness: Harness, extent: Extent, say: (what: string) => void): Promise<IdleResult> {
  say(`memory of ${extent.idleSessions} idle sessions, a fresh server each time`)
  const tokens = harness.population.idlers.tokens.slice(0, firstSessions + extent.idleSessions)
  const runs = await alternate(extent.runs, {
    async bare() {
      const bare = await harness.startBare("publish", [], collecting)
      const sockets = firstSessions + Math.min(extent.idleSessions, bareSessionsAtMost - firstSessions)
      const url = `ws://127.0.0.1:${bare.port}/gateway?topics=${topics}`
      try {
        return await grow(
          harness,
          { node: [bare.pid] },
          { url, tokens: Array.from({ length: sockets }, () => null), first: firstSessions },
          Math.min(bareRestSeconds, extent.restSeconds),
        )
      } finally {
        await bare.stop()
      }
    },
    async starling() {
      // This one would grow into what the run before has left.
      await harness.emptyRedis()
      const starling = await harness.startStarling(collecting)
      try {
        const connecting = { url: starling.gatewayUrl, tokens, first: firstSessions }
        return await grow(harness, starling.parts, connecting, extent.restSeconds)
      } finally {
        await starling.stop()
      }
    },
  })
  const of = (value: (run: IdleRun) => number) => compare(runs, value, value)
  return {
    sessions: extent.idleSessions,
    runs,
    memory: of(run => run.memory),
    memoryOfNode: of(run => run.memoryByPart["node"]!),
    memoryWithCache: of(run => run.memory + run.cache),
    connectCpu: of(run => sum(run.connectCpu)),
  }
}

interface Growing {
  readonly url: string
  readonly tokens: (string | null)[]
  /** How many of them are there before the first look. */
  readonly first: number
  readonly dialect?: DialectName
}

/** @param parts their Node processes, if any, as `node` */
export async function grow(
  harness: Harness,
  parts: Parts,
  { url, tokens, first, dialect }: Growing,
  restSeconds: number,
): Promise<IdleRun> {
  const loadGroups: { loadGroup: LoadGroup; stop: () => Promise<void> }[] = []
  const connect = async (some: (string | null)[]) => {
    const clients = harness.startLoadGroup()
    loadGroups.push(clients)
    const addresses = [`127.0.0.${20 + loadGroups.length}`]
    await clients.loadGroup.ask("connect", {
      url,
      tokens: some,
      addresses,
      maxConcurrent: 64,
      ...(dialect && { dialect }),
    })
  }
  await connect(tokens.slice(0, first))
  const before = await memoryAtRest(parts, Math.min(restSeconds, firstRestSeconds))

  const cpuBefore = readCpu(parts)
  const from = performance.now()
  for (let at = first; at < tokens.length; at += sessionsOfALoadGroup)
    await connect(tokens.slice(at, at + sessionsOfALoadGroup))
  const connectSeconds = (performance.now() - from) / 1_000
  const sessions = tokens.length - first
  const connectCpu = scale(cpuSince(parts, cpuBefore), 1 / sessions)
  const after = await memoryAtRest(parts, restSeconds)

  const idleFrom = readCpu(parts)
  const seconds = Math.min(idleSeconds, Math.max(1, restSeconds))
  await pause(seconds)
  const idleCpu = scale(cpuSince(parts, idleFrom), 1 / 1_000 / seconds)
  for (const { stop } of loadGroups) await stop()
  const { [cache]: cached = 0, ...memoryByPart } = Object.fromEntries(
    Object.keys(after).map(name => [name, (after[name]! - before[name]!) / sessions]),
  )
  return { sessions, memory: sum(memoryByPart), memoryByPart, cache: cached, connectSeconds, connectCpu, idleCpu }
}

/** What PostgreSQL keeps of its files, apart from all else that its processes take. */
const cache = "cache"

/**
 * Waits until what was only needed to connect is gone, and collects: pages go back to the system
 * only after several rounds.
 */
export async function memoryAtRest(parts: Parts, restSeconds: number): Promise<Record<string, number>> {
  for (let second = 0; second < restSeconds; second++) {
    await pause(1)
    for (const pid of processesOf(parts["node"] ?? [])) process.kill(pid, "SIGWINCH")
  }
  await pause(1)
  const memory = readMemory(parts)
  if (!("postgres" in parts)) return memory
  const { postgres: kept = 0 } = readShared(parts)
  return { ...memory, postgres: memory["postgres"]! - kept, [cache]: kept }
}
