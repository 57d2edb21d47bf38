/**
 * `npm run bench -- scaling`: what people take who do what people do, beside what the costs of single
 * operations make one expect; what a small server takes; and from both a table by users. `--write`
 * puts it into docs/operate/scaling.md.
 */
import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { clusterConfig } from "../../cluster.config.ts"
import { connectionsOf } from "../../src/storage/storage.ts"
import type { Bench } from "../bench.ts"
import { keptResults } from "../readme.ts"
import { root } from "../record.ts"
import { caption, round, type About, type Line } from "../report.ts"
import { figure } from "../statistics.ts"
import { measurePoint, type Point } from "./point.ts"
import {
  byProcess,
  coresOf,
  costsOf,
  needOf,
  people,
  processes,
  type ByProcess,
  type Costs,
  type Measured,
  type Rates,
} from "./sizing.ts"

const parts = ["point", "small"] as const
const peoplePerServer = 50
/** Of every Node process on a machine of 1 GB. */
const smallHeapMb = 128

interface ScalingResults extends About {
  costs: Costs
  point?: Point
  small?: Point
}

export const scaling: Bench<(typeof parts)[number], ScalingResults> = {
  about:
    "what people take beside what single operations make one expect, and a table by users; two parts of three minutes",
  parts,
  options: { people: "online: 2000", seconds: "in which they do what people do: 120" },
  async plan({ only, isQuick, isKept, count, say }) {
    const online = count("people", isQuick ? 200 : 2_000, 10_000)
    const seconds = count("seconds", isQuick ? 10 : 120, 200)
    const smallOnline = Math.min(online, 500)
    const kept = await keptResults()
    return {
      sizes: {
        audience: 1,
        authors: 0,
        idlers: 0,
        spreads: { users: online, servers: [Math.ceil(online / peoplePerServer)] },
      },
      extent: { runs: 1 },
      async measure(harness, about) {
        const results: ScalingResults = { ...about, costs: costsOf(kept) }
        // First: what PostgreSQL has touched it keeps.
        if (only.has("small")) {
          const heap = `--max-old-space-size=${smallHeapMb}`
          const starling = await harness.startStarling({ WORKERS: "1", NODE_OPTIONS: heap, UV_THREADPOOL_SIZE: "4" })
          const asked = { workers: 1, online: smallOnline, seconds: seconds / 2 }
          results.small = await measurePoint(harness, starling, asked, say)
          await starling.stop()
        }
        if (only.has("point")) {
          const starling = await harness.startStarling({ WORKERS: "2" })
          results.point = await measurePoint(harness, starling, { workers: 2, online, seconds }, say)
          await starling.stop()
        }
        return results
      },
      lines: results => [results.point, results.small].flatMap(point => (point ? linesOf(results.costs, point) : [])),
      sided: ["from the costs", "measured"],
      async after({ costs, point, small, ...about }) {
        if (!point || !small) return
        const text = `${caption(about)}\n\n${pointTable(costs, point)}\n\n${needTable(costs, point, small)}\n\n${smallTable(small)}`
        process.stdout.write(`\n${text}\n`)
        if (isKept && !isQuick) await writeFile(page, between(await readFile(page, "utf8"), text))
      },
    }
  },
}

const page = join(root, "docs", "operate", "scaling.md")

function between(text: string, inner: string): string {
  const [before, , after] = text.split(/<!-- (?:figures|end of figures) -->/)
  if (before === undefined || after === undefined) throw new Error(`${page} has no place for the figures`)
  return `${before}<!-- figures -->\n\n${inner}\n\n<!-- end of figures -->${after}`
}

/** What was done, which is not quite what was meant. */
const ratesIn = ({ posts, pages, connects, seconds }: Point): Rates => ({
  posts: posts / seconds,
  pages: pages / seconds,
  connects: connects / seconds,
})
const total = (cost: ByProcess) => processes.reduce((sum, process) => sum + cost[process], 0)
const inMs = (cost: ByProcess) => processes.map(process => `${process} ${round(1_000 * cost[process])}`).join(", ")
const inMiB = (memory: ByProcess) => processes.map(process => `${process} ${round(memory[process] / 1_024)}`).join(", ")
const whole = (value: number) => Math.round(value).toLocaleString("en")
const table = (rows: readonly (readonly (string | number)[])[]) =>
  rows.map((row, i) => `| ${row.join(" | ")} |${i === 0 ? `\n|${row.map(() => "---").join("|")}|` : ""}`).join("\n")

function linesOf(costs: Costs, point: Point): Line[] {
  const expected = coresOf(costs, point.idle, ratesIn(point))
  const who = `${whole(point.online)} people, ${point.workers} web worker${point.workers > 1 ? "s" : ""}`
  return [
    {
      work: `CPU a second, ${who}`,
      bare: `${whole(1_000 * total(expected))} ms (${inMs(expected)})`,
      starling: `${whole(1_000 * total(point.cores))} ms (${inMs(point.cores)})`,
      value: figure([total(point.cores) / total(expected)]),
      unit: "×",
    },
    {
      work: "… memory, MiB, at rest (left column) and at the end",
      bare: inMiB(point.rest),
      starling: inMiB(point.memory),
    },
    {
      work: "… post to answer, p50 / p99",
      bare: "",
      starling: `${round(point.p50)} / ${round(point.p99)} ms`,
      value: figure([point.p99]),
      unit: "ms",
    },
  ]
}

function pointTable(costs: Costs, point: Point): string {
  const expected = coresOf(costs, point.idle, ratesIn(point))
  const cells = (cores: ByProcess) => [
    ...processes.map(process => `${whole(1_000 * cores[process])} ms`),
    `${whole(1_000 * total(cores))} ms`,
  ]
  return [
    `${whole(point.online)} people online for ${whole(point.seconds)} s: ${whole(point.posts)} posts, each to ${people.heardBy} sessions, ${whole(point.pages)} pages, ${point.connects} sessions that came; p50 / p99 of a post ${round(point.p50)} / ${round(point.p99)} ms.`,
    table([
      ["CPU in a second", "Node.js", "PostgreSQL", "Redis", "all"],
      ["from the costs", ...cells(expected)],
      ["measured", ...cells(point.cores)],
    ]),
  ].join("\n\n")
}

/** What the two points say of a server: the one has two workers, the other one. */
function measuredBy(costs: Costs, point: Point, small: Point): Measured {
  const { readConnections } = clusterConfig.storage
  const expected = coresOf(costs, point.idle, ratesIn(point))
  return {
    idle: point.idle,
    factor: byProcess(process => point.cores[process] / expected[process]),
    rest: { workers: point.workers, memory: point.rest },
    workerKiB: point.rest.node - small.rest.node,
    storedBytesPerPost: point.storedBytesPerPost,
    redisBytesPerSession: point.redisBytesPerSession,
    connections: {
      worker: connectionsOf(readConnections, "web"),
      others: connectionsOf(readConnections, "job") + connectionsOf(1, "primary"),
    },
  }
}

function needTable(costs: Costs, point: Point, small: Point): string {
  const measured = measuredBy(costs, point, small)
  const rows = [1e3, 1e4, 1e5, 1e6].map(registered => {
    const need = needOf(costs, measured, registered)
    return [
      whole(need.registered),
      whole(need.online),
      round(need.postsPerSecond),
      whole(need.deliveriesPerSecond),
      round(total(need.cores)),
      need.workers,
      need.postgresCores,
      need.redisMasters,
      `${round(need.nodeGiB)} GiB`,
      `${round(need.redisGiB)} GiB`,
      need.connections,
      `${round(need.storedGiBPerYear)} GiB`,
    ]
  })
  const head =
    "Registered,online,posts/s,deliveries/s,cores in use,web workers,cores for PostgreSQL,Redis masters,memory of Node.js,memory of Redis,connections to PostgreSQL,stored in a year"
  return table([head.split(","), ...rows])
}

function smallTable(small: Point): string {
  const cells = (memory: ByProcess) => [
    ...processes.map(process => `${whole(memory[process] / 1_024)} MiB`),
    `${whole(total(memory) / 1_024)} MiB`,
  ]
  return table([
    [`Memory with one web worker and ${smallHeapMb} MB of heap`, "Node.js", "PostgreSQL", "Redis", "all"],
    ["at rest", ...cells(small.rest)],
    [`${whole(small.online)} sessions, after ${whole(small.posts)} posts`, ...cells(small.memory)],
  ])
}
