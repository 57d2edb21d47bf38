/**
 * `npm run bench -- guarantees`: what the guarantees cost. The same server, and the same without
 * one of them, take turns; only one runs at a time. A server without one of them is wrong: it
 * exists for as long as it is measured.
 */
import { cp, mkdir, rm, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { parseArgs } from "node:util"
// @ts-expect-error plain JavaScript, because it runs before anything else is made
import { bundle } from "../scripts/bundle.mjs"
import { maxRuns, readCount, readParts } from "./arguments.ts"
import { Harness, type Starling } from "./harness.ts"
import { commit, machine } from "./machine.ts"
import { authors, deferredWork, idleCpu, postsInFlight } from "./posts.ts"
import type { Sizes } from "./population.ts"
import { cpuSince, readCpu } from "./processes.ts"
import { figure, median, type Figure } from "./statistics.ts"
import { newRun, pause, scale, sum } from "./trials.ts"
import { leftOut } from "./variants/replace.ts"

interface Variant {
  readonly name: string
  /** Said by the server itself once it has done without it. */
  readonly leavesOut?: string
  /** What is run: the program's own main file, or one that takes something out before it. */
  readonly main: string
}

const usage = `npm run bench -- guarantees [--only posts,deliveries,sessions] [--runs 3] [--seconds 5] [--write]

--only     what the server does without something: posts without the outbox or the fence, deliveries without the
           log, sessions without their records
--seconds  of load in a run
--write    keeps the results`

const parts = ["posts", "deliveries", "sessions"] as const

const everything = "src/main.ts"

const posting: readonly Variant[] = [
  { name: "everything", main: everything },
  { name: "without the outbox", leavesOut: "the outbox", main: "bench/variants/without-the-outbox.ts" },
  { name: "without the fence", leavesOut: "the fence", main: "bench/variants/without-the-fence.ts" },
]

/** One worker alone, with and without its log: what is committed goes straight to the sessions. */
const delivering: readonly Variant[] = [
  { name: "everything, one worker", main: everything },
  { name: "without the log, one worker", leavesOut: "the log", main: "bench/variants/without-the-log.ts" },
]

const identifying: readonly Variant[] = [
  { name: "everything, sessions that identify", main: everything },
  { name: "without their records", leavesOut: "the record", main: "bench/variants/without-the-record.ts" },
]

/** Sessions that identify at once, and how often they do before it counts. */
const identifyingSessions = 2_000
const roundsBefore = 2

const root = join(import.meta.dirname, "..")

interface Comparing {
  readonly part: (typeof parts)[number]
  readonly unit: string
  readonly variants: readonly Variant[]
  readonly measure: (harness: Harness, starling: Starling, seconds: number) => Promise<Measured>
  readonly environment: Record<string, string>
  readonly sizes: Sizes
}

/** @returns the built main file */
async function build({ name, main }: Variant): Promise<string> {
  const folder = join(root, "node_modules", ".cache", "starling-variants", name.replaceAll(/\W+/g, "-"))
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  for (const part of ["src", "bench/variants", "cluster.config.ts", "tsconfig.json", "package.json"])
    await cp(join(root, part), join(folder, part), { recursive: true })
  await symlink(join(root, "node_modules"), join(folder, "node_modules"))
  await bundle(folder, { entryPoints: { main } })
  return join(folder, "dist", "src", "main.js")
}

interface Measured {
  readonly cpu: number
  readonly byPart: Readonly<Record<string, number>>
  readonly p50: number
}

async function posts(harness: Harness, starling: Starling, seconds: number): Promise<Measured> {
  const clients = harness.startLoadGroup()
  const { authors: posters } = harness.population
  const load = (duration: number) =>
    clients.loadGroup.ask("posts", {
      url: starling.url,
      posters,
      inFlight: postsInFlight,
      everyMs: 0,
      seconds: duration,
      run: newRun(),
    })
  await load(seconds)
  await pause(17)
  const idle = await idleCpu(starling.parts)
  const before = readCpu(starling.parts)
  const { posts: count, latency } = await load(seconds)
  const cpu = cpuSince(starling.parts, before)
  const deferred = await deferredWork(harness.databaseUrl, starling.parts, idle)
  await clients.stop()
  const byPart = Object.fromEntries(Object.entries(cpu).map(([name, used]) => [name, (used + deferred[name]!) / count]))
  return { cpu: sum(byPart), byPart, p50: latency.p50 }
}

async function deliveries(harness: Harness, starling: Starling, seconds: number): Promise<Measured> {
  const clients = harness.startLoadGroup()
  const { tokens, posters } = harness.population.audience
  await clients.loadGroup.ask("connect", {
    url: starling.gatewayUrl,
    tokens,
    addresses: ["127.0.0.11", "127.0.0.12"],
    maxConcurrent: 64,
  })
  const load = (duration: number) =>
    clients.loadGroup.ask("fanOut", {
      url: starling.url,
      posters: posters.slice(0, 1),
      inFlight: 1,
      everyMs: 10,
      seconds: duration,
      run: newRun(),
    })
  await load(seconds)
  const before = readCpu(starling.parts)
  const { posts: count, latency } = await load(seconds)
  const byPart = scale(cpuSince(starling.parts, before), 1 / count)
  await clients.stop()
  return { cpu: sum(byPart), byPart, p50: latency.p50 }
}

/** Of sessions in ten servers each, which the workers know already. */
async function sessions(harness: Harness, starling: Starling, seconds: number): Promise<Measured> {
  const clients = harness.startLoadGroup()
  const { tokens } = harness.population.idlers
  const connecting = { url: starling.gatewayUrl, tokens, addresses: ["127.0.0.13", "127.0.0.14"], maxConcurrent: 64 }
  const round = async () => {
    await clients.loadGroup.ask("open", connecting)
    const before = readCpu(starling.parts)
    const { ready } = await clients.loadGroup.ask("identify", null)
    const cpu = cpuSince(starling.parts, before)
    await clients.loadGroup.ask("disconnect", null)
    await pause(1)
    return { cpu, p50: ready.p50 }
  }
  for (let i = 0; i < roundsBefore; i++) await round()
  const rounds: Awaited<ReturnType<typeof round>>[] = []
  for (const until = performance.now() + seconds * 1_000; performance.now() < until || rounds.length === 0;)
    rounds.push(await round())
  await clients.stop()
  const names = Object.keys(rounds[0]!.cpu) as (keyof Starling["parts"])[]
  const count = rounds.length * tokens.length
  const byPart = Object.fromEntries(
    names.map(name => [name, rounds.reduce((total, { cpu }) => total + cpu[name], 0) / count]),
  )
  return { cpu: sum(byPart), byPart, p50: median(rounds.map(({ p50 }) => p50)) }
}

export async function benchGuarantees(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: "string", default: parts.join(",") },
      runs: { type: "string" },
      seconds: { type: "string" },
      write: { type: "boolean", default: false },
    },
  })
  const only = readParts(parts, values.only, usage)
  const runs = readCount("runs", values.runs, 3, maxRuns, usage)
  const seconds = readCount("seconds", values.seconds, 5, 60, usage)
  const say = (what: string) => process.stderr.write(`${what}\n`)
  const all: readonly Comparing[] = [
    {
      part: "posts",
      unit: "post",
      variants: posting,
      measure: posts,
      // The index is made of what the outbox holds: without the one there would be none of the other.
      environment: { STARLING_SEARCH_ENABLED: "false" },
      sizes: { audience: 1, authors, idlers: 0 },
    },
    {
      part: "deliveries",
      unit: "message to 1,000 sessions",
      variants: delivering,
      measure: deliveries,
      environment: { WORKERS: "1" },
      sizes: { audience: 1_000, authors: 1, idlers: 0 },
    },
    {
      part: "sessions",
      unit: "session",
      variants: identifying,
      measure: sessions,
      environment: {},
      sizes: { audience: 1, authors: 1, idlers: identifyingSessions },
    },
  ]
  const results: {
    unit: string
    variant: string
    cpu: Figure
    p50: Figure
    byPart: Readonly<Record<string, number>>[]
  }[] = []
  for (const { unit, variants, measure, environment, sizes } of all.filter(({ part }) => only.has(part))) {
    const mains = new Map<string, string>()
    for (const variant of variants) mains.set(variant.name, await build(variant))
    const measured = new Map<string, Measured[]>(variants.map(({ name }) => [name, []]))
    for (let run = 0; run < runs; run++)
      for (const { name, leavesOut } of run % 2 === 0 ? variants : variants.toReversed()) {
        say(`run ${run + 1}: ${name}`)
        // Each has a database of its own: what one left behind would be work for the next.
        const harness = await Harness.open(sizes, mains.get(name)!)
        try {
          const starling = await harness.startStarling(environment)
          const one = await measure(harness, starling, seconds)
          measured.get(name)!.push(one)
          say(`${one.cpu.toFixed(0)} µs a ${unit}`)
          if (leavesOut !== undefined && !starling.output().includes(leftOut(leavesOut)))
            throw new Error(`${name}: the server never came to leave out ${leavesOut}:\n${starling.output()}`)
        } finally {
          await harness.close()
        }
      }
    for (const [variant, list] of measured)
      results.push({
        unit,
        variant,
        cpu: figure(list.map(({ cpu }) => cpu)),
        p50: figure(list.map(({ p50 }) => p50)),
        byPart: list.map(({ byPart }) => byPart),
      })
  }
  const lines = results.map(({ unit, variant, cpu, p50 }) => {
    const whole = results.find(other => other.unit === unit)!
    const share = (100 * cpu.median) / whole.cpu.median
    return `| ${variant} | ${cpu.median.toFixed(0)} µs a ${unit} | ${share.toFixed(0)} % | ${p50.median.toFixed(1)} ms |`
  })
  if (values.write) {
    const file = join(root, "bench", "results", `${new Date().toISOString().slice(0, 10)}-guarantees.json`)
    const about = { commit: commit(), machine: machine(0), runs, seconds, results }
    await writeFile(file, `${JSON.stringify(about, undefined, 2)}\n`)
  }
  process.stdout.write(`\n| | CPU | of everything | p50 |\n|---|---|---|---|\n${lines.join("\n")}\n`)
}
