/**
 * Starling beside bare servers that do as little as can be done, in one run on one machine: CPU per delivery and per post,
 * memory per idle session, latency. Prints the ratios beside what we aim for and keeps every raw number in `results/`.
 */
import { execFile } from "node:child_process"
import { mkdir, writeFile } from "node:fs/promises"
import { loadavg } from "node:os"
import { join, resolve } from "node:path"
import { parseArgs, promisify } from "node:util"
import { audience, benchFanOut } from "./fan-out.ts"
import { benchIdle, firstSessions } from "./idle.ts"
import { benchCompression } from "./compression.ts"
import { benchGateway } from "./gateway/run.ts"
import { benchGuarantees } from "./guarantees.ts"
import { Laboratory } from "./laboratory.ts"
import { benchLatency } from "./latency.ts"
import { commit, machine, versions } from "./machine.ts"
import { authors, benchPosts } from "./posts.ts"
import { caption, fanOutChart, ratioChart, summarize, table } from "./report.ts"
import type { Results } from "./report.ts"
import { benchScaling } from "./scaling/run.ts"
import { Stop } from "./stop.ts"
import type { Extent } from "./trials.ts"

const usage = `npm run bench -- [--only fanout,posts,idle,latency] [--runs 3] [--sessions 5000] [--quick] [--main FILE]

--only      some of the parts
--runs      how often each is measured; medians are shown
--sessions  idle sessions whose memory is measured, up to 30,000
--quick     short and once: shows that all works, not what it costs
--main      the server to run; left out, this checkout is built and run

npm run bench -- scaling      the cost model and its simulation, see docs/scaling.md
npm run bench -- guarantees   what the guarantees cost, see docs/guarantees.md
npm run bench -- gateway      sizes of audiences, storms, idle sessions, latency under load
npm run bench -- compression  what compressed frames cost, shared and per socket`

const root = join(import.meta.dirname, "..")

const parts = ["idle", "fanout", "posts", "latency"] as const
type Part = (typeof parts)[number]

interface Arguments {
  only: ReadonlySet<Part>
  extent: Extent
  isQuick: boolean
  /** Given when another build than this checkout's is measured. */
  mainFile: string | undefined
}

function readArguments(): Arguments {
  const { values } = parseArgs({
    options: {
      only: { type: "string", default: parts.join(",") },
      runs: { type: "string" },
      sessions: { type: "string" },
      quick: { type: "boolean", default: false },
      main: { type: "string" },
    },
  })
  const number = (name: string, value: string | undefined, fallback: number, most: number) => {
    if (value === undefined) return fallback
    if (!/^\d+$/.test(value) || Number(value) < 1 || Number(value) > most)
      throw new Stop(`--${name} takes a whole number from 1 to ${most}\n\n${usage}`)
    return Number(value)
  }
  const only = values.only.split(",").map(name => {
    const part = parts.find(part => part === name.trim())
    if (part === undefined) throw new Stop(`there is no part ${name}\n\n${usage}`)
    return part
  })
  const isQuick = values.quick
  return {
    only: new Set(only),
    isQuick,
    mainFile: values.main === undefined ? undefined : resolve(values.main),
    extent: {
      runs: number("runs", values.runs, isQuick ? 1 : 3, 20),
      warmUpSeconds: isQuick ? 1 : 4,
      seconds: isQuick ? 2 : 5,
      idleSessions: number("sessions", values.sessions, isQuick ? 1_000 : 5_000, 30_000),
      restSeconds: isQuick ? 2 : 17,
      countsDeferredWork: !isQuick,
    },
  }
}

async function main(): Promise<void> {
  const { only, extent, isQuick, mainFile } = readArguments()
  if (process.platform !== "linux") throw new Stop("the benchmark reads /proc, so it runs on Linux only")
  const startedAt = performance.now()
  const [loadBefore] = loadavg()
  if (mainFile === undefined) await build()
  say("starting PostgreSQL and Redis, and peopling the database")
  const idlers = only.has("idle") ? extent.idleSessions + firstSessions : 0
  const sizes = { audience, authors, idlers }
  const laboratory = await Laboratory.open(sizes, mainFile ?? join(root, "dist", "src", "main.js"))
  const interrupted = () => {
    laboratory.close().then(
      () => process.exit(130),
      () => process.exit(130),
    )
  }
  process.once("SIGINT", interrupted).once("SIGTERM", interrupted)
  try {
    const results: Results = {
      at: new Date().toISOString(),
      commit: commit(),
      isQuick,
      extent,
      versions: await versions(laboratory.databaseUrl, laboratory.redisUrl),
      machine: machine(loadBefore!),
      seconds: 0,
    }
    if (only.has("idle")) results.idle = await benchIdle(laboratory, extent, say)
    if (only.has("fanout") || only.has("posts") || only.has("latency")) {
      say("starting Starling")
      const starling = await laboratory.startStarling()
      if (only.has("fanout")) results.fanOut = await benchFanOut(laboratory, starling, extent, say)
      if (only.has("posts")) results.posts = await benchPosts(laboratory, starling, extent, say)
      if (only.has("latency")) results.latency = await benchLatency(laboratory, starling, extent, say)
    }
    results.seconds = Math.round((performance.now() - startedAt) / 1_000)
    await keep(results)
  } finally {
    await laboratory.close()
    process.off("SIGINT", interrupted).off("SIGTERM", interrupted)
  }
}

/** As `npm start` does: a benchmark of yesterday's build would be worth nothing. */
async function build(): Promise<void> {
  const prepare = `const { prepare } = await import("./scripts/prepare.mjs"); await prepare({ redis: true })`
  try {
    await promisify(execFile)(process.execPath, ["--input-type=module", "-e", prepare], { cwd: root })
  } catch (cause) {
    const { stdout, stderr } = cause as { stdout: string; stderr: string }
    throw new Stop(`${stdout}${stderr}`, { cause })
  }
}

async function keep(results: Results): Promise<void> {
  const lines = summarize(results)
  const folder = join(root, "bench", "results")
  const name = `${results.at.slice(0, 10)}-${results.commit.replace("+", "-changed")}${results.isQuick ? "-quick" : ""}`
  await mkdir(folder, { recursive: true })
  const write = (ending: string, content: string) => writeFile(join(folder, `${name}${ending}`), content)
  await write(".json", `${JSON.stringify({ ...results, summary: lines }, undefined, 2)}\n`)
  if (lines.some(line => line.aim !== undefined)) await write("-aims.svg", ratioChart(results, lines))
  if (results.fanOut) await write("-fan-out.svg", fanOutChart(results, results.fanOut))
  process.stdout.write(
    `\n${caption(results)}\n\n${table(lines, results.isQuick)}\n\n${results.seconds} s; kept as bench/results/${name}.json\n`,
  )
}

const started = performance.now()
const say = (what: string) =>
  process.stderr.write(`${((performance.now() - started) / 1_000).toFixed(0).padStart(4)} s  ${what}\n`)

try {
  const [first, ...rest] = process.argv.slice(2)
  if (first === "scaling") await benchScaling(rest, build)
  else if (first === "guarantees") await benchGuarantees(rest)
  else if (first === "gateway") await benchGateway(rest, build, say)
  else if (first === "compression") await benchCompression(rest)
  else await main()
} catch (cause) {
  process.stderr.write(`${cause instanceof Stop ? cause.message : (cause as Error).stack}\n`)
  process.exitCode = 1
}
