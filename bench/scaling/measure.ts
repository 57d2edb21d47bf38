/**
 * Finds the constants of the cost model by running the server small and taking differences: of CPU
 * time, never of time on the clock, so that a machine which does other things too shows about the
 * same.
 */
import { Redis } from "ioredis"
import { freePort } from "../../src/std/child-server.ts"
import { redisKeys } from "../../src/cluster/keys.ts"
import { Harness, type Starling as Server } from "../harness.ts"
import type { Poster } from "../load/load-process.ts"
import { cpuSince, readCpu, readMemory } from "../processes.ts"
import { median } from "../statistics.ts"
import { newRun, pause, scale } from "../trials.ts"
import { costOf, type Cost, type Costs } from "./costs.ts"

export interface Effort {
  readonly runs: number
  readonly seconds: number
  readonly sessions: number
}

/**
 * A point of the model that is not used to find it: what was measured there, to be compared with
 * what the model says.
 */
export interface Point {
  readonly workers: number
  readonly sessions: number
  readonly postsPerSecond: number
  /** Cores. */
  readonly used: Cost
  /** Milliseconds from the post to its frame. */
  readonly p50: number
  readonly p99: number
}

export interface Measured {
  readonly costs: Costs
  readonly points: readonly Point[]
  /** What the differences were taken of, for readers who doubt them. */
  readonly raw: Readonly<Record<string, unknown>>
}

interface Run {
  readonly posts: number
  readonly seconds: number
  readonly cpu: Cost
  readonly batches: number
  readonly p50: number
  readonly p99: number
}

interface Starling extends Server {
  readonly metricsUrl: string
}

const many = 400
const few = 64
const manyWorkers = 4
/** Outbox rows of published messages go 15 s after they were written. */
const sweptAfterSeconds = 17
/**
 * The kernel counts in hundredths of a second: what is taken away many times over has to be looked
 * at for long.
 */
const restSeconds = 15

export async function measure(mainFile: string, effort: Effort, say: (what: string) => void): Promise<Measured> {
  const sizes = { audience: many, authors: 128, idlers: effort.sessions }
  const harness = await Harness.open(sizes, mainFile)
  const { audience, authors, idlers } = harness.population
  const raw: Record<string, unknown> = {}
  const points: Point[] = []

  /** A server with so many workers, and the sessions that hear the posts. */
  async function withServer<T>(workers: number, tokens: readonly string[], use: (server: Starling) => Promise<T>) {
    const port = await freePort()
    const started = await harness.startStarling({ WORKERS: String(workers), METRICS_PORT: String(port) })
    const server = { ...started, metricsUrl: `http://127.0.0.1:${port}/metrics` }
    const clients = harness.startLoadGroup()
    try {
      if (tokens.length > 0)
        await clients.loadGroup.ask("connect", {
          url: server.gatewayUrl,
          tokens: [...tokens],
          addresses: ["127.0.0.11", "127.0.0.12"],
          maxConcurrent: 16,
        })
      return await use(server)
    } finally {
      await clients.stop()
      await server.stop()
    }
  }

  const idleOf = async ({ parts }: Starling, seconds: number): Promise<Cost> => {
    const before = readCpu(parts)
    await pause(seconds)
    return scale(cpuSince(parts, before), 1 / seconds)
  }

  /**
   * The median of several runs, what a resting server takes taken away, and the sweep of the outbox
   * added.
   */
  async function posting(
    server: Starling,
    posters: readonly Poster[],
    options: { inFlight: number; everyMs?: number; hear?: readonly string[]; sweep?: boolean },
  ): Promise<Run> {
    const clients = harness.startLoadGroup()
    const { inFlight, everyMs = 0, hear = [], sweep = false } = options
    const url = server.url
    if (hear.length > 0)
      await clients.loadGroup.ask("connect", {
        url: server.gatewayUrl,
        tokens: [...hear],
        addresses: ["127.0.0.13"],
        maxConcurrent: 16,
      })
    const load = (seconds: number) =>
      clients.loadGroup.ask(hear.length > 0 ? "fanOut" : "posts", {
        url,
        posters: [...posters],
        inFlight,
        everyMs,
        seconds,
        run: newRun(),
      })
    try {
      await load(Math.min(3, effort.seconds))
      if (sweep) await pause(sweptAfterSeconds)
      const resting = await idleOf(server, restSeconds)
      const runs: Run[] = []
      for (let n = 0; n < effort.runs; n++) {
        const before = readCpu(server.parts)
        const batches = await batchesOf(server)
        const from = performance.now()
        const { posts, seconds, latency } = await load(effort.seconds)
        if (sweep) await pause(sweptAfterSeconds)
        const took = (performance.now() - from) / 1_000
        const cpu = cpuSince(server.parts, before)
        runs.push({
          posts,
          seconds,
          cpu: costOf(part => Math.max(0, (cpu[part] - resting[part] * took) / posts)),
          batches: (await batchesOf(server)) - batches,
          p50: latency.p50,
          p99: latency.p99,
        })
      }
      const middle = (of: (run: Run) => number) => median(runs.map(of))
      return {
        posts: middle(run => run.posts),
        seconds: middle(run => run.seconds),
        cpu: costOf(part => middle(run => run.cpu[part])),
        batches: middle(run => run.batches),
        p50: middle(run => run.p50),
        p99: middle(run => run.p99),
      }
    } finally {
      await clients.stop()
    }
  }

  try {
    say("posts that nobody hears, one worker: many at once, then one by one")
    const [saturated, single, idleOfOne] = await withServer(1, [], async server => [
      await posting(server, authors, { inFlight: 128, sweep: true }),
      await posting(server, authors.slice(0, 1), { inFlight: 1, sweep: true }),
      await idleOf(server, 10),
    ])
    // A commit costs what the one-by-one posts cost more, over the messages that the others share
    // it with.
    const shared = { saturated: saturated.posts / saturated.batches, single: single.posts / single.batches }
    const commit = costOf(part =>
      Math.max(0, (single.cpu[part] - saturated.cpu[part]) / (1 / shared.single - 1 / shared.saturated)),
    )
    const message = costOf(part => Math.max(0, saturated.cpu[part] - commit[part] / shared.saturated))

    say(`the same with ${manyWorkers} workers, and what they cost at rest`)
    const [spread, idleOfMany] = await withServer(manyWorkers, [], async server => [
      await posting(server, authors, { inFlight: 128, sweep: true }),
      await idleOf(server, 10),
    ])
    const away = 1 - 1 / manyWorkers
    const ask = costOf(part =>
      Math.max(0, (spread.cpu[part] - message[part] - commit[part] / (spread.posts / spread.batches)) / away),
    )
    const idle = costOf(part => Math.max(0, (idleOfMany[part] - idleOfOne[part]) / (manyWorkers - 1)))

    say(`one message at a time to ${few} and to ${many} sessions of one worker`)
    const oneByOne = { inFlight: 1, everyMs: 10 }
    const posters = audience.posters.slice(0, 8)
    const [toMany, toFew] = await withServer(1, [], async server => [
      await posting(server, posters, { ...oneByOne, hear: audience.tokens }),
      await posting(server, posters, { ...oneByOne, hear: audience.tokens.slice(0, few) }),
    ])
    say(`the same to ${few} sessions of ${manyWorkers} workers`)
    const toFewOfMany = await withServer(manyWorkers, [], server =>
      posting(server, posters, { ...oneByOne, hear: audience.tokens.slice(0, few) }),
    )
    const socket = costOf(part => Math.max(0, (toMany.cpu[part] - toFew.cpu[part]) / (many - few)))
    const worker = costOf(part =>
      Math.max(0, (toFewOfMany.cpu[part] - toFew.cpu[part] - away * ask[part]) / (manyWorkers - 1)),
    )

    say(`${effort.sessions} sessions: connecting, memory, heartbeats`)
    const sessions = await withServer(2, [], async server => {
      const clients = harness.startLoadGroup()
      try {
        const connect = (tokens: string[]) =>
          clients.loadGroup.ask("connect", {
            url: server.gatewayUrl,
            tokens,
            addresses: ["127.0.0.14"],
            maxConcurrent: 32,
          })
        const first = Math.floor(effort.sessions / 4)
        await connect(idlers.tokens.slice(0, first))
        await pause(2)
        const memory = readMemory(server.parts)
        const resting = await idleOf(server, 5)
        const before = readCpu(server.parts)
        const from = performance.now()
        await connect(idlers.tokens.slice(first))
        const took = (performance.now() - from) / 1_000
        const more = effort.sessions - first
        const cpu = cpuSince(server.parts, before)
        const grown = readMemory(server.parts)
        const beating = await idleOf(server, 36)
        return {
          connect: costOf(part => Math.max(0, (cpu[part] - resting[part] * took) / more)),
          session: costOf(part => Math.max(0, (beating[part] - resting[part]) / more)),
          bytes: ((grown.node - memory.node) * 1_024) / more,
        }
      } finally {
        await clients.stop()
      }
    })

    say("signs of life in Redis")
    const pair = await costOfPair(harness.redisUrl)

    say("a mixture that the model has not seen")
    for (const [workers, hear, inFlight] of [
      [2, 200, 2],
      [4, 400, 4],
    ] as const) {
      const tokens = audience.tokens.slice(0, hear)
      const run = await withServer(workers, [], server =>
        posting(server, audience.posters.slice(0, 16), { inFlight, everyMs: 20, hear: tokens }),
      )
      const rate = run.posts / run.seconds
      points.push({
        workers,
        sessions: hear,
        postsPerSecond: rate,
        used: costOf(part => (run.cpu[part] * rate) / 1e6),
        p50: run.p50,
        p99: run.p99,
      })
    }

    Object.assign(raw, { saturated, single, spread, toMany, toFew, toFewOfMany, idleOfOne, idleOfMany, sessions })
    return {
      costs: {
        message,
        commit,
        ask,
        worker,
        socket,
        connect: sessions.connect,
        session: sessions.session,
        idle,
        pair,
        sessionBytes: sessions.bytes,
        commitMs: single.p50,
      },
      points,
      raw,
    }
  } finally {
    await harness.close()
  }
}

async function batchesOf({ metricsUrl }: Starling): Promise<number> {
  const text = await (await fetch(metricsUrl)).text()
  return text
    .split("\n")
    .filter(line => line.startsWith("starling_lanes_batches_total"))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0)
}

/**
 * Each worker reads all signs of life twice a second: what Redis takes for one sign, read by one,
 * in a second.
 */
async function costOfPair(url: string): Promise<number> {
  const redis = new Redis(url)
  const key = redisKeys("scaling-bench:").members
  const members = 512
  const reads = 400
  try {
    const sign = JSON.stringify([123_456, "web", "0123456789", 12, false])
    for (let i = 0; i < members; i++) await redis.hset(key, `web-0123456789-${i}-01234567`, sign)
    const usedBy = async () => {
      const found = /cmdstat_hgetall:calls=\d+,usec=(\d+)/.exec(await redis.info("commandstats"))
      return Number(found?.[1] ?? 0)
    }
    const before = await usedBy()
    for (let i = 0; i < reads; i++) await redis.hgetall(key)
    return (2 * ((await usedBy()) - before)) / reads / members
  } finally {
    await redis.del(key)
    redis.disconnect()
  }
}
