/**
 * Starling beside bare servers that do as little as can be done, in one run on one machine: CPU per
 * delivery and per post, memory per idle session, latency. Prints the ratios beside what we aim for
 * and keeps every raw number in `results/`.
 */
import { execFile } from "node:child_process"
import { join, resolve } from "node:path"
import { parseArgs, promisify } from "node:util"
import { benchAccounts } from "./accounts/run.ts"
import { maxRuns, readCount, readParts } from "./arguments.ts"
import { benchBatch } from "./batch.ts"
import { benchCompare } from "./compare.ts"
import { benchCommunities } from "./communities/run.ts"
import { benchDeliveries } from "./deliveries/run.ts"
import { audience, benchFanOut } from "./fan-out.ts"
import { benchIdle, firstSessions } from "./idle.ts"
import { benchFlames } from "./flames/run.ts"
import { benchCompression } from "./compression.ts"
import { benchFiles } from "./files/run.ts"
import { benchGateway } from "./gateway/run.ts"
import { benchGuarantees } from "./guarantees.ts"
import { benchHistory } from "./history/run.ts"
import { benchLatency } from "./latency.ts"
import { benchPeers } from "./peers/run.ts"
import { benchPictures } from "./pictures/run.ts"
import { authors, benchPosts } from "./posts.ts"
import { benchReadme, showRows } from "./readme.ts"
import { benchReadState } from "./read-state/run.ts"
import { record, show } from "./record.ts"
import { fanOutChart, summarize } from "./report.ts"
import type { Results } from "./report.ts"
import { benchScaling } from "./scaling/run.ts"
import { benchSearch } from "./search/run.ts"
import { Stop } from "./stop.ts"
import type { Extent } from "./trials.ts"

const usage = `npm run bench -- [--only fanout,posts,idle,latency] [--runs 3] [--sessions 20000] [--quick] [--main FILE]

--only      some of the parts
--runs      how often each is measured; medians are shown
--sessions  idle sessions whose memory is measured, up to 30,000
--quick     short and once: shows that all works, not what it costs
--main      the server to run; left out, this checkout is built and run

npm run bench -- readme       measures the rows of the README and of bench/README.md and prints them, half an hour
npm run bench -- rows         prints the same rows of the latest kept results

npm run bench -- compare A B  two commits beside each other; --against A: that one and this checkout

npm run bench -- batch        what one batch of posts costs PostgreSQL, and forms of the outbox's row
npm run bench -- scaling      the cost model and its simulation, see docs/operate/scaling.md
npm run bench -- guarantees   what the guarantees cost, see docs/internals/guarantees.md
npm run bench -- gateway      sizes of audiences, storms, idle sessions, latency under load
npm run bench -- accounts     sign-ins, the cost of asking who one is, latency while many sign in
npm run bench -- communities  what a server costs as it grows to 100,000 members
npm run bench -- history      what a page of history costs, hot and cold
npm run bench -- read-state   acknowledgements, unread counts and receipts by stored messages and readers
npm run bench -- search       searches among a million messages, and what the index costs
npm run bench -- deliveries   to how many messages were delivered, by members; heartbeats
npm run bench -- peers        the same work for other servers, in the same run
npm run bench -- flames       flame graphs of a post, a delivery, a GET and IDENTIFY
npm run bench -- pictures     what an uploaded picture costs, beside sharp alone
npm run bench -- files        many files at once, in and out, beside a bare server
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
  const number = (name: string, value: string | undefined, fallback: number, most: number) =>
    readCount(name, value, fallback, most, usage)
  const isQuick = values.quick
  return {
    only: readParts(parts, values.only, usage),
    isQuick,
    mainFile: values.main === undefined ? undefined : resolve(values.main),
    extent: {
      runs: number("runs", values.runs, isQuick ? 1 : 3, maxRuns),
      warmUpSeconds: isQuick ? 1 : 4,
      seconds: isQuick ? 2 : 5,
      idleSessions: number("sessions", values.sessions, isQuick ? 1_000 : 20_000, 30_000),
      restSeconds: isQuick ? 2 : 17,
      countsDeferredWork: !isQuick,
    },
  }
}

async function main(): Promise<void> {
  const { only, extent, isQuick, mainFile } = readArguments()
  const idlers = only.has("idle") ? extent.idleSessions + firstSessions : 0
  const sizes = { audience, authors, idlers }
  const results = await record({ sizes, extent, isQuick, mainFile, build, say }, async (harness, about) => {
    const results: Results = about
    if (only.has("idle")) results.idle = await benchIdle(harness, extent, say)
    if (only.has("fanout") || only.has("posts") || only.has("latency")) {
      say("starting Starling")
      const starling = await harness.startStarling()
      if (only.has("fanout")) results.fanOut = await benchFanOut(harness, starling, extent, say)
      if (only.has("posts")) results.posts = await benchPosts(harness, starling, extent, say)
      if (only.has("latency")) results.latency = await benchLatency(harness, starling, extent, say)
      await starling.stop()
    }
    if (only.has("fanout")) {
      say("starting Starling with one web worker")
      const starling = await harness.startStarling({ WORKERS: "1" })
      results.fanOutOfOne = await benchFanOut(harness, starling, extent, say)
    }
    return results
  })
  const charts = results.fanOut ? { "fan-out": fanOutChart(results, results.fanOut) } : {}
  await show(results, summarize(results), { isKept: true, charts })
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

const started = performance.now()
const say = (what: string) =>
  process.stderr.write(`${((performance.now() - started) / 1_000).toFixed(0).padStart(4)} s  ${what}\n`)

try {
  const [first, ...rest] = process.argv.slice(2)
  if (first === "compare" || first === "--against") await benchCompare(rest, say)
  else if (first === "batch") await benchBatch(rest, say)
  else if (first === "scaling") await benchScaling(rest, build)
  else if (first === "guarantees") await benchGuarantees(rest)
  else if (first === "gateway") await benchGateway(rest, build, say)
  else if (first === "accounts") await benchAccounts(rest, build, say)
  else if (first === "read-state") await benchReadState(rest, build, say)
  else if (first === "deliveries") await benchDeliveries(rest, build, say)
  else if (first === "communities") await benchCommunities(rest, build, say)
  else if (first === "history") await benchHistory(rest, build, say)
  else if (first === "search") await benchSearch(rest, build, say)
  else if (first === "peers") await benchPeers(rest, build, say)
  else if (first === "flames") await benchFlames(rest, build, say)
  else if (first === "readme") await benchReadme(rest)
  else if (first === "rows") await showRows()
  else if (first === "pictures") await benchPictures(rest, build, say)
  else if (first === "files") await benchFiles(rest, build, say)
  else if (first === "compression") await benchCompression(rest)
  else await main()
} catch (cause) {
  process.stderr.write(`${cause instanceof Stop ? cause.message : (cause as Error).stack}\n`)
  process.exitCode = 1
}
