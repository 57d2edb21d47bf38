/**
 * From a post leaving to its frame at a session, with nothing else going on. Which worker serves a
 * connection is read from the kernel's tables, which worker owns the channel from the database, so
 * the way of each frame is known.
 */
import { readFileSync } from "node:fs"
import postgres from "postgres"
import { shardOf } from "../src/domain/core/snowflake.ts"
import type { Harness, Starling } from "./harness.ts"
import type { Poster } from "./load/load-process.ts"
import { servedAddresses } from "./processes.ts"
import { figure, quantile } from "./statistics.ts"
import type { Figure } from "./statistics.ts"
import { newRun, pause } from "./trials.ts"
import type { Extent } from "./trials.ts"

/** On average. */
const everyMs = 15
const sessionAddresses = Array.from({ length: 16 }, (_, i) => `127.0.1.${i + 1}`)
const posterAddresses = Array.from({ length: 8 }, (_, i) => `127.0.2.${i + 1}`)

const acceptedWithinMs = 5_000

/** A way that a frame can take. */
export interface Way {
  /** Whether the post came in at the worker that owns the channel. */
  postedAtOwner: boolean
  /** Whether the session lives on the worker that owns the channel. */
  heardAtOwner: boolean
}

export interface WayResult extends Way {
  /** Milliseconds, by run. */
  runs: { count: number; p50: number; p99: number }[]
  p50: Figure
  p99: Figure
}

export async function benchLatency(
  harness: Harness,
  starling: Starling,
  extent: Extent,
  say: (what: string) => void,
): Promise<WayResult[]> {
  say("latency on an idle system")
  const owner = await ownerOf(harness.population.quiet.channel, harness.databaseUrl)
  const { clients, pinging } = await openQuiet(harness, starling)
  const { loadGroup } = clients
  const port = Number(new URL(starling.url).port)
  const served = servedAddresses(starling.parts.node, port)
  const hearsAtOwner = sessionAddresses.map(address => isWorker(served.get(address), owner))

  const ways: (Way & { runs: number[][] })[] = [true, false].flatMap(postedAtOwner =>
    [true, false].map(heardAtOwner => ({ postedAtOwner, heardAtOwner, runs: [] })),
  )
  await loadGroup.ask("ping", { ...pinging, seconds: extent.warmUpSeconds, run: newRun() })
  for (let run = 0; run < extent.runs; run++) {
    const asked = loadGroup.ask("ping", { ...pinging, seconds: extent.seconds, run: newRun() })
    // The caller that waits for it learns of it; until then it must not end the program.
    asked.catch(() => undefined)
    // Its connections are made at once and stay until it is over.
    const posting = await servedSoon(starling.parts.node, port, posterAddresses)
    const postsAtOwner = posterAddresses.map(address => isWorker(posting.get(address), owner))
    const { latencies } = await asked
    for (const way of ways)
      way.runs.push(
        latencies
          .filter((_, poster) => postsAtOwner[poster] === way.postedAtOwner)
          .flatMap(sessions => sessions.flatMap((ms, i) => (hearsAtOwner[i] === way.heardAtOwner ? ms : []))),
      )
  }
  await clients.stop()
  return ways.map(way => {
    const runs = way.runs.map(ms => ({ count: ms.length, p50: quantile(ms, 0.5), p99: quantile(ms, 0.99) }))
    // With few connections all may be on one worker: such a run says nothing about this way.
    const seen = runs.filter(run => run.count > 0)
    return { ...way, runs, p50: figure(seen.map(run => run.p50)), p99: figure(seen.map(run => run.p99)) }
  })
}

interface Place {
  readonly url: string
  readonly gatewayUrl: string
}

/** The sessions that hear the posts, and what is asked for to make those. */
export function openQuiet(harness: Harness, starling: Place) {
  const { tokens, posters } = harness.population.quiet
  return listenAt(harness, starling, tokens, posters)
}

async function listenAt(
  harness: Harness,
  { url, gatewayUrl }: Place,
  tokens: readonly (string | null)[],
  posters: readonly Poster[],
) {
  const clients = harness.startLoadGroup()
  // One by one, so that session i has address i.
  const listening = { url: gatewayUrl, tokens: [...tokens], addresses: sessionAddresses, maxConcurrent: 1 }
  await clients.loadGroup.ask("connect", listening)
  const pinging = { url, posters: posterAddresses.map((address, i) => ({ ...posters[i]!, address })), everyMs }
  return { clients, pinging }
}

/** The same of a bare server that does as little on the same way. */
export async function openBareQuiet(harness: Harness, starling: Place) {
  const { tokens, posters } = harness.population.quiet
  const listener = harness.startLoadGroup()
  const one = { url: starling.gatewayUrl, tokens: tokens.slice(0, 1), addresses: sessionAddresses, maxConcurrent: 1 }
  await listener.loadGroup.ask("connect", one)
  const sample = { url: starling.url, poster: posters[0]!, run: newRun() }
  const { frame } = await listener.loadGroup.ask("sample", sample)
  await listener.stop()
  const bare = await harness.startBare("lone", [harness.bareDatabaseUrl, harness.redisUrl, frame])
  const at = (scheme: string) => `${scheme}://127.0.0.1:${bare.port}`
  const quiet = await listenAt(
    harness,
    { url: at("http"), gatewayUrl: `${at("ws")}/gateway` },
    tokens.map(() => null),
    posters.map(({ token }) => ({ path: "/messages", token })),
  )
  return { ...quiet, pid: bare.pid }
}

/** A busy worker takes its time to accept a connection. */
async function servedSoon(
  roots: readonly number[],
  port: number,
  addresses: readonly string[],
): Promise<Map<string, number>> {
  const until = performance.now() + acceptedWithinMs
  for (;;) {
    const served = servedAddresses(roots, port)
    if (addresses.every(address => served.has(address)) || performance.now() > until) return served
    await pause(0.1)
  }
}

/** The slot of the web worker that owns a channel. */
async function ownerOf(channel: string, databaseUrl: string): Promise<number> {
  const sql = postgres(databaseUrl, { max: 1 })
  try {
    const [row] = await sql<{ slot: number }[]>`
      SELECT slot FROM shards JOIN incarnations ON incarnations.id = owner WHERE shard = ${shardOf(channel)}`
    if (!row) throw new Error("nobody owns the channel's shard")
    return row.slot
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** A worker's arguments end in its role and slot. */
export function isWorker(pid: number | undefined, slot: number): boolean {
  if (pid === undefined) throw new Error("a connection is served by none of the server's processes")
  return readFileSync(`/proc/${pid}/cmdline`, "latin1").split("\0").slice(-3, -1).join(" ") === `web ${slot}`
}
