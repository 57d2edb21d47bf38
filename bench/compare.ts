/**
 * `npm run bench -- compare A [B]`: two commits beside each other. Both servers are up at once, each
 * with a PostgreSQL and a Redis of its own, and load goes to them and to a bare server in turns, in
 * another order each time: whatever else the machine does meets all. What is shown is the ratio of
 * each turn, its median, and where the median lies with 95 % certainty.
 */
import { execFile, execFileSync } from "node:child_process"
import { cp, mkdir, rm, symlink } from "node:fs/promises"
import { join } from "node:path"
import { parseArgs, promisify } from "node:util"
// @ts-expect-error plain JavaScript, because it runs before anything else is made
import { bundle } from "../scripts/bundle.mjs"
import { readCount, readParts } from "./arguments.ts"
import { audience } from "./fan-out.ts"
import { Harness, type Starling } from "./harness.ts"
import type { LoadGroup } from "./load/load-group.ts"
import type { Poster } from "./load/load-process.ts"
import { authors, postsInFlight } from "./posts.ts"
import { cpuSince, readCpu, type Parts } from "./processes.ts"
import { openQuiet } from "./latency.ts"
import { median, medianInterval, quantile } from "./statistics.ts"
import { Stop } from "./stop.ts"
import { newRun, pause, sum } from "./trials.ts"

const usage = `npm run bench -- compare A [B] [--only posts,deliveries,lone,latency,idle] [--turns 9] [--seconds 3]

A, B       commits; B left out, or ".": this working tree. "--against A" is the same as "compare A"
--only     posts: 128 in flight, nobody listens. deliveries: to 1,000 sessions, 32 in flight. lone: the same, one
           at a time. latency: from a post to its frame, every 15 ms or so and nothing else, whichever workers they are
           on. idle: with these sessions and nothing to do
--turns    of each; with fewer than six nothing is certain
--seconds  of load in a turn`

const parts = ["posts", "deliveries", "lone", "latency", "idle"] as const
type Part = (typeof parts)[number]

const root = join(import.meta.dirname, "..")
const fewestTurns = 6
const maxTurns = 60
const warmUpSeconds = 5

/** A server that is measured. */
interface Side {
  readonly name: string
  readonly parts: Parts
  /** Operations that were done. */
  readonly load: (part: Part, seconds: number) => Promise<number>
  /** Milliseconds until half of the frames had come. */
  readonly ping?: (seconds: number) => Promise<number>
}

/** @returns the main file of a commit, built; the working tree is "." */
async function buildOf(commit: string): Promise<string> {
  const folder = join(root, "node_modules", ".cache", "starling-compared", commit === "." ? "here" : commit)
  const wanted = ["src", "cluster.config.ts", "tsconfig.json", "package.json"]
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  if (commit === ".") for (const part of wanted) await cp(join(root, part), join(folder, part), { recursive: true })
  else {
    const archive = join(folder, "source.tar")
    execFileSync("git", ["archive", "--output", archive, commit, ...wanted], { cwd: root })
    execFileSync("tar", ["-xf", archive], { cwd: folder })
  }
  await symlink(join(root, "node_modules"), join(folder, "node_modules"))
  await bundle(folder)
  return join(folder, "dist", "src", "main.js")
}

async function commitOf(name: string): Promise<string> {
  if (name === ".") return name
  try {
    const { stdout } = await promisify(execFile)("git", ["rev-parse", "--short", `${name}^{commit}`], { cwd: root })
    return stdout.trim()
  } catch {
    throw new Stop(`there is no commit ${name}\n\n${usage}`)
  }
}

/** A Starling with sessions that listen, or the bare servers that do the same work. */
async function openSide(harness: Harness, starling: Starling, name: string, only: ReadonlySet<Part>): Promise<Side> {
  const { audience: hall, authors: posters } = harness.population
  const { loadGroup } = harness.startLoadGroup()
  if (only.has("deliveries") || only.has("lone") || only.has("idle"))
    await connect(loadGroup, starling.gatewayUrl, hall.tokens)
  const load = loads(loadGroup, { posts: { url: starling.url, posters }, fanOut: { url: starling.url, posters: hall.posters } }) // prettier-ignore
  const side = { name, parts: starling.parts, load }
  if (!only.has("latency")) return side
  const { clients, pinging } = await openQuiet(harness, starling)
  return {
    ...side,
    async ping(seconds) {
      const { latencies } = await clients.loadGroup.ask("ping", { ...pinging, seconds, run: newRun() })
      return quantile(latencies.flat(2), 0.5)
    },
  }
}

async function openBare(harness: Harness, starling: Starling, only: ReadonlySet<Part>): Promise<Side[]> {
  const { audience: hall, authors: posters } = harness.population
  const { loadGroup } = harness.startLoadGroup()
  const sides: Side[] = []
  if (only.has("posts")) {
    const { body } = await loadGroup.ask("answer", { url: starling.url, poster: posters[0]!, run: newRun() })
    const bare = await harness.startBare("posts", [harness.bareDatabaseUrl, body])
    const target = {
      url: `http://127.0.0.1:${bare.port}`,
      posters: posters.map(({ path, token }): Poster => ({ path: path.replace("/api/v1", ""), token })),
    }
    sides.push({
      name: "bare",
      parts: { node: [bare.pid], postgres: [harness.barePostgres] },
      load: loads(loadGroup, { posts: target, fanOut: target }),
    })
  }
  if (only.has("deliveries") || only.has("lone")) {
    const listeners = harness.startLoadGroup().loadGroup
    await connect(listeners, starling.gatewayUrl, hall.tokens.slice(0, 1))
    const poster = hall.posters[0]!
    const { frame } = await listeners.ask("sample", { url: starling.url, poster, run: newRun() })
    const bare = await harness.startBare("publish", [frame])
    const clients = harness.startLoadGroup().loadGroup
    await connect(
      clients,
      `ws://127.0.0.1:${bare.port}/gateway`,
      Array.from({ length: audience }, () => null),
    )
    const url = `http://127.0.0.1:${bare.port}`
    const target = { url, posters: hall.posters.map(({ token }): Poster => ({ path: "/messages", token })) }
    sides.push({
      name: "bare publish",
      parts: { node: [bare.pid] },
      load: loads(clients, { posts: target, fanOut: target }),
    })
  }
  return sides
}

const connect = (loadGroup: LoadGroup, url: string, tokens: (string | null)[]) =>
  loadGroup.ask("connect", { url, tokens, addresses: ["127.0.0.11", "127.0.0.12"], maxConcurrent: 64 })

interface Target {
  readonly url: string
  readonly posters: Poster[]
}

function loads(loadGroup: LoadGroup, to: { posts: Target; fanOut: Target }): Side["load"] {
  return async (part, seconds) => {
    if (part === "idle") {
      await pause(seconds)
      return seconds
    }
    if (part === "posts") {
      const { posts } = await loadGroup.ask("posts", { ...to.posts, inFlight: postsInFlight, everyMs: 0, seconds, run: newRun() }) // prettier-ignore
      return posts
    }
    const inFlight = part === "lone" ? 1 : 32
    const posters = to.fanOut.posters.slice(0, inFlight)
    const everyMs = part === "lone" ? 10 : 0
    const { deliveries } = await loadGroup.ask("fanOut", { url: to.fanOut.url, posters, inFlight, everyMs, seconds, run: newRun() }) // prettier-ignore
    return deliveries
  }
}

const units: Readonly<Record<Part, string>> = {
  posts: "µs of CPU per post",
  deliveries: "µs of CPU per delivery, 32 in flight",
  lone: "µs of CPU per delivery, one message at a time",
  latency: "ms from a post to its frame, p50",
  idle: "µs of CPU per second",
}

/** Microseconds of all processes of a side per operation; of latency milliseconds. */
async function measure(side: Side, part: Part, seconds: number): Promise<number> {
  if (part === "latency") return side.ping!(seconds)
  const before = readCpu(side.parts)
  const count = await side.load(part, seconds)
  return sum(cpuSince(side.parts, before)) / count
}

/** One line: a figure of each side, and the ratio of the second to the first. */
export function lineOf(part: string, names: readonly string[], turns: readonly (readonly number[])[]): string {
  const figures = names.map((name, i) => `${name} ${median(turns.map(turn => turn[i]!)).toPrecision(3)}`)
  const ratioTo = (i: number, to: number) => turns.map(turn => turn[i]! / turn[to]!)
  const beside = names.length > 2 ? [0, 1].map(i => `${names[i]!} ${median(ratioTo(i, 2)).toFixed(2)} ×`) : []
  const interval = medianInterval(ratioTo(1, 0))
  const percent = (ratio: number) => `${ratio >= 1 ? "+" : "−"}${Math.abs((ratio - 1) * 100).toFixed(1)} %`
  const verdict = interval.from <= 1 && interval.to >= 1 ? "no difference seen" : interval.median < 1 ? "less" : "more"
  return `${part}: ${figures.join(", ")}${beside.length > 0 ? `; beside bare: ${beside.join(", ")}` : ""}; ${names[1]!} beside ${names[0]!}: ${percent(interval.median)} (${percent(interval.from)} to ${percent(interval.to)}), ${verdict}`
}

export async function benchCompare(args: string[], say: (what: string) => void): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      only: { type: "string", default: parts.join(",") },
      turns: { type: "string" },
      seconds: { type: "string" },
    },
  })
  const [first, second = ".", ...others] = positionals
  if (first === undefined || others.length > 0) throw new Stop(usage)
  const only = readParts(parts, values.only, usage)
  const turns = readCount("turns", values.turns, 9, maxTurns, usage)
  const seconds = readCount("seconds", values.seconds, 3, 60, usage)
  if (turns < fewestTurns) say(`with fewer than ${fewestTurns} turns nothing is certain`)
  const commits = [await commitOf(first), await commitOf(second)]
  const mains: string[] = []
  for (const commit of commits) mains.push(await buildOf(commit))
  const sizes = { audience, authors, idlers: 0 }
  await Harness.use(sizes, mains[0]!, one =>
    Harness.use(sizes, mains[1]!, async other => {
      const starlings = await Promise.all([one, other].map(harness => harness.startStarling()))
      const both = await Promise.all(
        [one, other].map((harness, i) => openSide(harness, starlings[i]!, nameOf(commits, i), only)),
      )
      const bare = await openBare(one, starlings[0]!, only)
      for (const part of only) {
        const floor =
          part === "idle" || part === "latency"
            ? undefined
            : bare.find(({ name }) => (name === "bare") === (part === "posts"))
        const sides = floor ? [...both, floor] : both
        say(part)
        for (const side of sides)
          await (part === "latency" ? side.ping!(warmUpSeconds) : side.load(part, warmUpSeconds))
        const measured: number[][] = []
        for (let turn = 0; turn < turns; turn++) {
          const figures: number[] = []
          const order = sides.map((_, i) => (turn % 2 === 0 ? i : sides.length - 1 - i))
          for (const i of order) figures[i] = await measure(sides[i]!, part, seconds)
          measured.push(figures)
        }
        const names = sides.map(({ name }) => name)
        process.stdout.write(`${lineOf(units[part], names, measured)}\n`)
      }
    }),
  )
}

const nameOf = (commits: readonly string[], i: number): string => (commits[i] === "." ? "here" : commits[i]!)
