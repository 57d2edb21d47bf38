/**
 * What a page of 50 messages costs, from the end of a channel that everybody reads and from
 * anywhere in it, by how many messages the channel has. The floor is the same statement through
 * postgres.js, whose rows are thrown away.
 */
import postgres from "postgres"
import { epochMs, idOf, shardOf } from "../../src/domain/core/snowflake.ts"
import type { Harness } from "../harness.ts"
import type { Wanted } from "../load/load-process.ts"
import { idleCpu } from "../posts.ts"
import { cpuSince, readCpu } from "../processes.ts"
import type { Parts } from "../processes.ts"
import type { LatencySummary } from "../statistics.ts"
import { alternate, compare, pause, scale, sum } from "../trials.ts"
import type { Comparison, Sides } from "../trials.ts"

const pageSize = 50
const inFlight = 32
/** Long ago, so that no id of the server's own is the same. */
const plantedMs = epochMs + 86_400_000
/** Characters: most are short, some are long. */
const lengths = [12, 25, 40, 60, 90, 140, 400]

export interface PagesExtent {
  readonly runs: number
  readonly messages: readonly number[]
  readonly pages: number
  readonly warmUpPages: number
  readonly idleSeconds: number
}

export interface PagesRun {
  readonly pages: number
  /**
   * Microseconds per page, user and system: of all server processes, and by part; without what an
   * idle server takes meanwhile.
   */
  readonly cpu: number
  readonly cpuByPart: Record<string, number>
  readonly latency: LatencySummary
}

export interface PagesCase {
  readonly messages: number
  readonly place: "hot" | "cold"
  readonly bytes: number
  readonly runs: Sides<PagesRun[]>
  readonly cpu: Comparison
  readonly p50: Comparison
}

/** Each in a channel of its own, which several people read. */
export async function benchPages(
  harness: Harness,
  extent: PagesExtent,
  say: (what: string) => void,
): Promise<PagesCase[]> {
  const posters = harness.population.authors
  const channels = extent.messages.map((messages, i) => {
    const readers = posters.slice(4 * i, 4 * i + 4)
    return { messages, readers, id: readers[0]!.path.split("/")[4]! }
  })
  const ids = new Map<string, string[]>()
  for (const { messages, id } of channels) {
    say(`${messages.toLocaleString("en")} messages`)
    ids.set(id, await plant(harness.databaseUrl, id, messages))
  }
  const starling = await harness.startStarling({ RATE_LIMITS: "off" })
  const clients = harness.startLoadGroup()
  const bare = await harness.startBare("history", [harness.databaseUrl])
  try {
    const { postgres: database } = starling.parts
    const sides = {
      bare: {
        url: `http://127.0.0.1:${bare.port}`,
        root: "",
        parts: { node: [bare.pid], postgres: database } as Parts,
      },
      starling: { url: starling.url, root: "/api/v1", parts: starling.parts as Parts },
    }
    const idle = await idleCpu(sides.starling.parts, extent.idleSeconds)
    const cases: PagesCase[] = []
    for (const { messages, readers, id } of channels)
      for (const place of ["hot", "cold"] as const) {
        const positions = ids.get(id)!
        const wanted = (side: keyof typeof sides, pages: number): Wanted[] =>
          Array.from({ length: pages }, (_, i) => {
            const before = place === "hot" ? "" : `&before=${positions[Math.floor(Math.random() * positions.length)]!}`
            const path = `${sides[side].root}/channels/${id}/messages?limit=${pageSize}${before}`
            return { method: "GET", path, token: readers[i % readers.length]!.token }
          })
        const load = (side: keyof typeof sides, pages: number) =>
          clients.loadGroup.ask("requests", { url: sides[side].url, requests: wanted(side, pages), inFlight })
        const measure = async (side: keyof typeof sides): Promise<PagesRun> => {
          const { parts } = sides[side]
          const before = readCpu(parts)
          const { count, seconds, latency } = await load(side, extent.pages)
          const used = cpuSince(parts, before)
          const cpuByPart = scale(
            Object.fromEntries(
              Object.entries(used).map(([part, time]) => [
                part,
                time - (side === "starling" ? idle[part]! * seconds : 0),
              ]),
            ),
            1 / count,
          )
          return { pages: count, cpu: sum(cpuByPart), cpuByPart, latency }
        }
        say(`${messages.toLocaleString("en")} messages, ${place}`)
        const [sample] = wanted("starling", 1)
        const answered = await fetch(`${starling.url}${sample!.path}`, {
          headers: { Authorization: `Bearer ${sample!.token}` },
        })
        const bytes = (await answered.arrayBuffer()).byteLength
        for (const side of ["bare", "starling"] as const) await load(side, extent.warmUpPages)
        const runs = await alternate(extent.runs, { bare: () => measure("bare"), starling: () => measure("starling") })
        const of = (value: (run: PagesRun) => number) => compare(runs, value, value)
        cases.push({ messages, place, bytes, runs, cpu: of(run => run.cpu), p50: of(run => run.latency.p50) })
        await pause(extent.idleSeconds / 5)
      }
    return cases
  } finally {
    await clients.stop()
    await bare.stop()
    await starling.stop()
  }
}

/** @returns ids of some, which have at least a page below them */
export async function plant(databaseUrl: string, channel: string, messages: number): Promise<string[]> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => undefined })
  try {
    const [{ server_id, members }] = (await sql`
      SELECT c.server_id::text, ARRAY(SELECT user_id::text FROM members m WHERE m.server_id = c.server_id) AS members
      FROM channels c WHERE c.id = ${channel}`) as unknown as [{ server_id: string; members: string[] }]
    const first = idOf(shardOf(channel), { ms: plantedMs, sequence: 0 })
    // A millisecond lies between two of them.
    await sql`
      INSERT INTO messages (channel_id, id, server_id, author_id, content)
      SELECT ${channel}, ${first}::bigint + (i::bigint << 22), ${server_id}, (${members}::bigint[])[1 + i % ${members.length}],
        left(repeat('what is said there is of no account ', 20), (${lengths}::int[])[1 + i % ${lengths.length}])
      FROM generate_series(1, ${messages}::int) AS i`
    await sql`VACUUM ANALYZE messages`
    const below = Math.min(pageSize, messages - 1)
    return Array.from({ length: 2_000 }, () => {
      const at = below + 1 + Math.floor(Math.random() * (messages - below))
      return (BigInt(first) + (BigInt(at) << 22n)).toString()
    })
  } finally {
    await sql.end({ timeout: 5 })
  }
}
