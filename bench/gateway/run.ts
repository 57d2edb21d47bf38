/** `npm run bench -- gateway`: what the gateway costs as it grows, when everybody comes at once, and when nothing happens. */
import { mkdir, writeFile } from "node:fs/promises"
import { loadavg } from "node:os"
import { join, resolve } from "node:path"
import { parseArgs } from "node:util"
import { benchIdle, firstSessions } from "../idle.ts"
import { Laboratory } from "../laboratory.ts"
import { commit, machine, versions } from "../machine.ts"
import { caption, ratioChart, table } from "../report.ts"
import { Stop } from "../stop.ts"
import type { Extent } from "../trials.ts"
import { benchBusy } from "./busy.ts"
import type { BusyExtent } from "./busy.ts"
import { benchQuiet, quietExtent } from "./quiet.ts"
import { sizesChart, summarize } from "./report.ts"
import type { GatewayResults } from "./report.ts"
import { benchSizes } from "./sizes.ts"
import type { SizesExtent } from "./sizes.ts"
import { benchStorms } from "./storms.ts"
import type { StormsExtent } from "./storms.ts"

const usage = `npm run bench -- gateway [--only sizes,storms,idle,latency] [--runs 3] [--quick] [--write] [--main FILE]

--only   some of the parts
--runs   how often each is measured; medians are shown
--quick  small, short and once: shows that all works, not what it costs
--write  keeps the results, and measures the memory of 20,000 idle sessions too
--main   the server to run; left out, this checkout is built and run`

const root = join(import.meta.dirname, "..", "..")
const parts = ["sizes", "storms", "idle", "latency"] as const
type Part = (typeof parts)[number]

interface Arguments {
  readonly only: ReadonlySet<Part>
  readonly runs: number
  readonly isQuick: boolean
  readonly isKept: boolean
  /** Given when another build than this checkout's is measured. */
  readonly mainFile: string | undefined
}

function readArguments(args: string[]): Arguments {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: "string", default: parts.join(",") },
      runs: { type: "string" },
      quick: { type: "boolean", default: false },
      write: { type: "boolean", default: false },
      main: { type: "string" },
    },
  })
  const only = values.only.split(",").map(name => {
    const part = parts.find(part => part === name.trim())
    if (part === undefined) throw new Stop(`there is no part ${name}\n\n${usage}`)
    return part
  })
  const runs = Number(values.runs ?? (values.quick ? 1 : 3))
  if (!Number.isInteger(runs) || runs < 1 || runs > 20)
    throw new Stop(`--runs takes a whole number from 1 to 20\n\n${usage}`)
  return {
    only: new Set(only),
    runs,
    isQuick: values.quick,
    isKept: values.write,
    mainFile: values.main === undefined ? undefined : resolve(values.main),
  }
}

interface Plan {
  readonly sizes: SizesExtent
  readonly spreadUsers: number
  readonly storms: StormsExtent
  readonly idle: readonly Extent[]
  readonly latency: BusyExtent
}

function planOf({ runs, isQuick, isKept }: Arguments): Plan {
  const short = { runs, countsDeferredWork: false, idleSessions: 0, restSeconds: 0 }
  const idle = (idleSessions: number, restSeconds: number): Extent => ({
    ...short,
    warmUpSeconds: 0,
    seconds: 0,
    idleSessions,
    restSeconds,
  })
  return isQuick
    ? {
        sizes: {
          runs,
          warmUpSeconds: 0.3,
          seconds: 0.5,
          settleSeconds: 0.5,
          audiences: [100],
          plainAudiences: [10],
          sessionsOfACrowd: 40,
          servers: [10],
        },
        spreadUsers: 100,
        storms: { runs, identifying: 200, resuming: 200, settleSeconds: 0.5, idleSeconds: 1, workers: [2] },
        idle: [idle(200, 0)],
        latency: { ...short, warmUpSeconds: 0.3, seconds: 1, listeners: 100, storming: 100, floodSeconds: 1.5 },
      }
    : {
        sizes: {
          runs,
          warmUpSeconds: 3,
          seconds: 4,
          settleSeconds: 3,
          audiences: [10, 100, 1_000, 5_000, 20_000],
          plainAudiences: [10, 100, 1_000, 5_000, 20_000],
          // A process has descriptors for less than 20,000.
          sessionsOfACrowd: 7_500,
          servers: [1, 10, 100],
        },
        spreadUsers: 1_000,
        storms: { runs, identifying: 5_000, resuming: 10_000, settleSeconds: 3, idleSeconds: 5, workers: [1, 2] },
        idle: [idle(5_000, 17), ...(isKept ? [idle(20_000, 17)] : [])],
        latency: { ...short, warmUpSeconds: 2, seconds: 10, listeners: 1_000, storming: 2_000, floodSeconds: 3 },
      }
}

export async function benchGateway(
  args: string[],
  build: () => Promise<void>,
  say: (what: string) => void,
): Promise<void> {
  const asked = readArguments(args)
  const { only, isQuick, mainFile } = asked
  if (process.platform !== "linux") throw new Stop("the benchmark reads /proc, so it runs on Linux only")
  const plan = planOf(asked)
  const quiet = { ...quietExtent(isQuick), runs: asked.runs }
  const startedAt = performance.now()
  const [loadBefore] = loadavg()
  if (mainFile === undefined) await build()
  say("starting PostgreSQL and Redis, and peopling the database")
  const audience = Math.max(
    ...(only.has("sizes") ? [...plan.sizes.audiences, ...plan.sizes.plainAudiences] : [1]),
    ...(only.has("latency") ? [plan.latency.listeners] : [1]),
  )
  const idlers = Math.max(
    ...(only.has("storms") ? [plan.storms.identifying, plan.storms.resuming] : [0]),
    ...(only.has("idle") ? [quiet.sessions, ...plan.idle.map(one => one.idleSessions + firstSessions)] : [0]),
    ...(only.has("latency") ? [plan.latency.storming] : [0]),
  )
  const spreads = only.has("sizes") ? { spreads: { users: plan.spreadUsers, servers: [...plan.sizes.servers] } } : {}
  const laboratory = await Laboratory.open(
    { audience, authors: 0, idlers, ...spreads },
    mainFile ?? join(root, "dist/src/main.js"),
  )
  const interrupted = () => {
    laboratory.close().then(
      () => process.exit(130),
      () => process.exit(130),
    )
  }
  process.once("SIGINT", interrupted).once("SIGTERM", interrupted)
  try {
    const results: GatewayResults = {
      at: new Date().toISOString(),
      commit: commit(),
      isQuick,
      extent: { runs: asked.runs },
      versions: await versions(laboratory.databaseUrl, laboratory.redisUrl),
      machine: machine(loadBefore!),
      seconds: 0,
    }
    if (only.has("idle")) {
      results.idle = []
      for (const extent of plan.idle) results.idle.push(await benchIdle(laboratory, extent, say))
      results.quiet = await benchQuiet(laboratory, quiet, say)
    }
    if (only.has("sizes")) results.sizes = await benchSizes(laboratory, plan.sizes, say)
    if (only.has("storms")) results.storms = await benchStorms(laboratory, plan.storms, say)
    if (only.has("latency")) results.latency = await benchBusy(laboratory, plan.latency, say)
    results.seconds = Math.round((performance.now() - startedAt) / 1_000)
    await show(results, asked.isKept)
  } finally {
    await laboratory.close()
    process.off("SIGINT", interrupted).off("SIGTERM", interrupted)
  }
}

async function show(results: GatewayResults, isKept: boolean): Promise<void> {
  const lines = summarize(results)
  let kept = ""
  if (isKept) {
    const folder = join(root, "bench", "results")
    const ending = results.isQuick ? "-quick" : ""
    const name = `${results.at.slice(0, 10)}-${results.commit.replace("+", "-changed")}-gateway${ending}`
    await mkdir(folder, { recursive: true })
    const write = (ending: string, content: string) => writeFile(join(folder, `${name}${ending}`), content)
    await write(".json", `${JSON.stringify({ ...results, summary: lines }, undefined, 2)}\n`)
    if (lines.some(line => line.aim !== undefined)) await write("-aims.svg", ratioChart(results, lines))
    if (results.sizes) await write("-sizes.svg", sizesChart(results, results.sizes))
    kept = `; kept as bench/results/${name}.json`
  }
  process.stdout.write(`\n${caption(results)}\n\n${table(lines, results.isQuick)}\n\n${results.seconds} s${kept}\n`)
}
