/**
 * What an accepted post costs where nobody listens. The floor is a bare uWebSockets.js handler with
 * a bare group commit: one multi-row insert of whatever came while the last was under way.
 */
import postgres from "postgres"
import type { Harness, Starling } from "./harness.ts"
import { LoadGroup } from "./load/load-group.ts"
import type { Poster } from "./load/load-process.ts"
import { cpuSince, readCpu } from "./processes.ts"
import type { Parts } from "./processes.ts"
import type { LatencySummary } from "./statistics.ts"
import { alternate, compare, newRun, pause, scale, sum } from "./trials.ts"
import type { Comparison, Extent, Sides } from "./trials.ts"

export const postsInFlight = 128
export const authors = 128
/**
 * Outbox rows of published messages go 15 s after they were written, by a sweep that comes once a
 * second.
 */
const sweptAfterSeconds = 17
/** Seconds until the search index has come to the last message, at most; it has half of a connection's time then. */
const indexedWithinSeconds = 120
const idleSeconds = 3
/** V8 compiles for so long what posts go through; its threads take a fifth of a worker's time meanwhile. */
const warmUpSeconds = 20

export interface PostsRun {
  posts: number
  postsPerSecond: number
  /**
   * Microseconds per post, user and system: of all server processes, and by part. Deferred work is
   * in it.
   */
  cpu: number
  cpuByPart: Record<string, number>
  /**
   * What of it came after the last answer, above what an idle server takes: sweeping the outbox, and
   * most of the search index.
   */
  deferred: Record<string, number>
  latency: LatencySummary
}

export interface PostsResult {
  inFlight: number
  runs: Sides<PostsRun[]>
  cpu: Comparison
  cpuOfNode: Comparison
  postsPerSecond: Comparison
  p50: Comparison
  p99: Comparison
}

export async function benchPosts(
  harness: Harness,
  starling: Starling,
  extent: Extent,
  say: (what: string) => void,
): Promise<PostsResult> {
  const { authors: posters } = harness.population
  const clients = harness.startLoadGroup()
  const answer = await clients.loadGroup.ask("answer", { url: starling.url, poster: posters[0]!, run: newRun() })
  const bare = await harness.startBare("posts", [harness.bareDatabaseUrl, answer.body])
  const barePosters = posters.map(({ path, token }): Poster => ({ path: path.replace("/api/v1", ""), token }))

  const sides = {
    bare: {
      loadGroup: clients.loadGroup,
      url: `http://127.0.0.1:${bare.port}`,
      posters: barePosters,
      parts: { node: [bare.pid], postgres: [harness.barePostgres] } as Parts,
    },
    starling: { loadGroup: clients.loadGroup, url: starling.url, posters, parts: starling.parts as Parts },
  }
  const load = (
    { loadGroup, url, posters }: { loadGroup: LoadGroup; url: string; posters: Poster[] },
    seconds: number,
  ) => loadGroup.ask("posts", { url, posters, inFlight: postsInFlight, everyMs: 0, seconds, run: newRun() })
  const measure = async (side: typeof sides.bare, idle: Record<string, number> | undefined): Promise<PostsRun> => {
    const before = readCpu(side.parts)
    const { posts, seconds, latency } = await load(side, extent.seconds)
    const cpu = cpuSince(side.parts, before)
    const deferred = idle ? await deferredWork(harness.databaseUrl, side.parts, idle) : scale(cpu, 0)
    const cpuByPart = Object.fromEntries(Object.keys(cpu).map(name => [name, (cpu[name]! + deferred[name]!) / posts]))
    const postsPerSecond = posts / seconds
    return { posts, postsPerSecond, cpu: sum(cpuByPart), cpuByPart, deferred: scale(deferred, 1 / posts), latency }
  }

  const idle = await idleCpu(starling.parts)
  say(`posts, ${postsInFlight} in flight`)
  const warmUp = extent.countsDeferredWork ? Math.max(warmUpSeconds, extent.warmUpSeconds) : extent.warmUpSeconds
  for (const side of [sides.bare, sides.starling]) await load(side, warmUp)
  if (extent.countsDeferredWork) await deferredWork(harness.databaseUrl, sides.starling.parts, idle) // the warm-up's
  const runs = await alternate(extent.runs, {
    bare: () => measure(sides.bare, undefined),
    starling: () => measure(sides.starling, extent.countsDeferredWork ? idle : undefined),
  })
  await clients.stop()
  await bare.stop()
  const of = (value: (run: PostsRun) => number) => compare(runs, value, value)
  return {
    inFlight: postsInFlight,
    runs,
    cpu: of(run => run.cpu),
    cpuOfNode: of(run => run.cpuByPart["node"]!),
    postsPerSecond: of(run => run.postsPerSecond),
    p50: of(run => run.latency.p50),
    p99: of(run => run.latency.p99),
  }
}

/** Microseconds per second. */
export async function idleCpu(parts: Parts, seconds = idleSeconds): Promise<Record<string, number>> {
  const before = readCpu(parts)
  await pause(seconds)
  return scale(cpuSince(parts, before), 1 / seconds)
}

/** Whether the search index has read all rows of the outbox and its list. */
const isIndexed = async (sql: postgres.Sql): Promise<boolean> => {
  const [row] = await sql<{ done: boolean }[]>`
    SELECT NOT EXISTS (SELECT FROM message_search_backlog) AND NOT EXISTS (
      SELECT FROM message_search_positions p WHERE p.number < (SELECT max(o.number) FROM outbox o WHERE o.shard = p.shard)) AS done`
  return row!.done
}

/**
 * What is done after the last answer, above what an idle server takes: the outbox is swept, and the
 * search index comes to the last message.
 */
export async function deferredWork(
  databaseUrl: string,
  parts: Parts,
  idle: Record<string, number>,
): Promise<Record<string, number>> {
  const before = readCpu(parts)
  const startedAt = performance.now()
  const passed = () => (performance.now() - startedAt) / 1_000
  await pause(sweptAfterSeconds)
  const sql = postgres(databaseUrl, { max: 1 })
  try {
    while (!(await isIndexed(sql))) {
      if (passed() > indexedWithinSeconds) throw new Error("the search index does not come to the last message")
      await pause(1)
    }
  } finally {
    await sql.end({ timeout: 1 })
  }
  const used = cpuSince(parts, before)
  const seconds = passed()
  return Object.fromEntries(Object.keys(used).map(name => [name, Math.max(0, used[name]! - idle[name]! * seconds)]))
}
