/** A server with so many people who do what `people` says, for some time: what that takes. */
import { Redis } from "ioredis"
import postgres from "postgres"
import type { Harness, Starling } from "../harness.ts"
import type { Wanted } from "../load/load-process.ts"
import { idleCpu } from "../posts.ts"
import { cpuSince, readCpu, readMemory } from "../processes.ts"
import { newRun, pause, scale } from "../trials.ts"
import { byProcess, people, type ByProcess } from "./sizing.ts"

export interface Point {
  readonly workers: number
  readonly online: number
  readonly seconds: number
  /** Microseconds of CPU a second with nobody there. */
  readonly idle: ByProcess
  /** Cores, while people did what they do. */
  readonly cores: ByProcess
  readonly posts: number
  readonly pages: number
  readonly connects: number
  /** KiB, pages that processes share counted in parts: with nobody there, and at the end. */
  readonly rest: ByProcess
  readonly memory: ByProcess
  /** Of tables and indexes, per post. */
  readonly storedBytesPerPost: number
  readonly redisBytesPerSession: number
  /** Milliseconds from a post to its answer. */
  readonly p50: number
  readonly p99: number
}

const lanes = 8
const settleSeconds = 5
/** Sessions that come and go together. */
const visitors = 8

export async function measurePoint(
  harness: Harness,
  starling: Starling,
  { workers, online, seconds }: Pick<Point, "workers" | "online" | "seconds">,
  say: (what: string) => void,
): Promise<Point> {
  const [spread] = harness.population.spreads
  const tokens = spread!.tokens.slice(0, online)
  const sql = postgres(harness.databaseUrl, { max: 1, onnotice: () => undefined })
  const redis = new Redis(harness.redisUrl)
  const redisBytes = async () => Number(/used_memory:(\d+)/.exec(await redis.info("memory"))![1])
  const storedBytes = async () => {
    const [row] = await sql<{ bytes: string }[]>`SELECT sum(pg_total_relation_size(c.oid))::text AS bytes
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'r'`
    return Number(row!.bytes)
  }
  try {
    await pause(settleSeconds)
    const idle = byProcess(ofCpu(await idleCpu(starling.parts, settleSeconds)))
    const rest = byProcess(ofCpu(readMemory(starling.parts)))
    const redisBefore = await redisBytes()
    say(`${online} sessions`)
    const listeners = harness.startLoadGroup()
    const connecting = { url: starling.gatewayUrl, addresses: ["127.0.0.11", "127.0.0.12"], maxConcurrent: 32 }
    await listeners.loadGroup.ask("connect", { ...connecting, tokens })
    await pause(settleSeconds)
    const redisBytesPerSession = ((await redisBytes()) - redisBefore) / online

    say(`${online} people for ${seconds} s`)
    const storedBefore = await storedBytes()
    const before = readCpu(starling.parts)
    const startedAt = performance.now()
    const done = await actAll(harness, starling, { online, seconds, connecting })
    const tookSeconds = (performance.now() - startedAt) / 1_000
    const cores = byProcess(ofCpu(scale(cpuSince(starling.parts, before), 1 / 1e6 / tookSeconds)))
    const memory = byProcess(ofCpu(readMemory(starling.parts)))
    const storedBytesPerPost = ((await storedBytes()) - storedBefore) / done.posts
    await listeners.stop()
    const facts = { workers, online, seconds: tookSeconds, idle, cores, rest, memory, ...done }
    return { ...facts, storedBytesPerPost, redisBytesPerSession }
  } finally {
    redis.disconnect()
    await sql.end({ timeout: 5 })
  }
}

const ofCpu = (values: Record<string, number>) => (name: string) => values[name]!

interface Acting {
  readonly online: number
  readonly seconds: number
  readonly connecting: { readonly url: string; readonly addresses: string[]; readonly maxConcurrent: number }
}

/** Posts, pages and visitors, each at its rate. */
async function actAll(harness: Harness, { url }: Starling, { online, seconds, connecting }: Acting) {
  const [spread] = harness.population.spreads
  const { posters } = spread!
  const [writers, readers, comers] = [0, 1, 2].map(() => harness.startLoadGroup())
  const everyMs = (lanes * 1_000) / (online * people.posts)
  const writing = writers!.loadGroup.ask("posts", { url, posters, inFlight: lanes, everyMs, seconds, run: newRun() })

  const reading = inTurns(seconds, 1, async () => {
    const wanted = (i: number): Wanted => {
      const { path, token } = posters[i % posters.length]!
      return { method: "GET", path: `${path}?limit=50`, token }
    }
    const requests = Array.from({ length: Math.round(online * people.pages) }, (_, i) => wanted(i))
    return (await readers!.loadGroup.ask("requests", { url, requests, inFlight: 2 })).count
  })
  const visiting = inTurns(seconds, visitors / (online * people.connects), async () => {
    await comers!.loadGroup.ask("disconnect", null)
    await comers!.loadGroup.ask("connect", { ...connecting, tokens: spread!.tokens.slice(0, visitors) })
    return visitors
  })
  const [{ posts, latency }, pages, connects] = await Promise.all([writing, reading, visiting])
  for (const clients of [writers, readers, comers]) await clients!.stop()
  return { posts, pages, connects, p50: latency.p50, p99: latency.p99 }
}

/** Something again and again, as long as there is time for one more. @returns what all of it amounts to */
async function inTurns(seconds: number, everySeconds: number, turn: () => Promise<number>): Promise<number> {
  const startedAt = performance.now()
  const elapsed = () => (performance.now() - startedAt) / 1_000
  let sum = 0
  for (let next = 0; next + everySeconds <= seconds; next += everySeconds) {
    await pause(Math.max(0, next - elapsed()))
    if (elapsed() < seconds) sum += await turn()
  }
  return sum
}
