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
import { peopleFor } from "./accounts/people.ts"
import { readCount, readParts } from "./arguments.ts"
import { askersIn, comparedIn, partNames, Served, type Bare, type Part } from "./compared.ts"
import { audience } from "./fan-out.ts"
import { Harness, type Starling } from "./harness.ts"
import { authors } from "./posts.ts"
import { cpuSince, readCpu, type Parts } from "./processes.ts"
import { median, medianInterval } from "./statistics.ts"
import { Stop } from "./stop.ts"
import { sum } from "./trials.ts"

/** Those that are compared where nothing else is asked for: a quarter of an hour. */
const usual: readonly Part[] = ["posts", "deliveries", "lone", "latency", "idle"]

const usage = `npm run bench -- compare A [B] [--only ${usual.join(",")}] [--turns 9] [--seconds 3] [--with NAME=VALUE] [--quick]

A, B       commits; B left out, or ".": this working tree. "--against A" is the same as "compare A"
--turns    of each; with fewer than six nothing is certain
--seconds  of load in a turn
--with     NAME=VALUE, as often as wanted: settings of the second alone, so that A and B can be one commit
--quick    one short turn: shows that all works
--only     some of
${partNames.map(part => `           ${part.padEnd(10)}  ${comparedIn(part).about}`).join("\n")}`

const root = join(import.meta.dirname, "..")
const fewestTurns = 6
const maxTurns = 60

/** A server that is measured. */
interface Side extends Bare {
  readonly name: string
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

/** Microseconds of all processes of a side per operation, or the figure that its work answers. */
async function measure({ parts, work }: Side, isFigure: boolean, seconds: number): Promise<number> {
  const before = readCpu(parts)
  const done = await work(seconds)
  return isFigure ? done : sum(cpuSince(parts, before)) / done
}

/** One line: a figure of each side, and the ratio of the second to the first. */
export function lineOf(part: string, names: readonly string[], turns: readonly (readonly number[])[]): string {
  const figures = names.map((name, i) => `${name} ${median(turns.map(turn => turn[i]!)).toPrecision(3)}`)
  const ratioTo = (i: number, to: number) => turns.map(turn => turn[i]! / turn[to]!)
  const beside = names.length > 2 ? [0, 1].map(i => `${names[i]!} ${median(ratioTo(i, 2)).toFixed(2)} ×`) : []
  const interval = medianInterval(ratioTo(1, 0))
  const percent = (ratio: number) => `${ratio >= 1 ? "+" : "−"}${Math.abs((ratio - 1) * 100).toFixed(1)} %`
  const seen = interval.from > 1 ? "more" : interval.to < 1 ? "less" : "no difference seen"
  const verdict = turns.length < fewestTurns ? "too few turns" : seen
  return `${part}: ${figures.join(", ")}${beside.length > 0 ? `; beside bare: ${beside.join(", ")}` : ""}; ${names[1]!} beside ${names[0]!}: ${percent(interval.median)} (${percent(interval.from)} to ${percent(interval.to)}), ${verdict}`
}

export async function benchCompare(args: string[], say: (what: string) => void): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      only: { type: "string", default: usual.join(",") },
      turns: { type: "string" },
      seconds: { type: "string" },
      with: { type: "string", multiple: true, default: [] },
      quick: { type: "boolean", default: false },
    },
  })
  const [first, second = ".", ...others] = positionals
  if (first === undefined || others.length > 0) throw new Stop(usage)
  const only = readParts(partNames, values.only, usage)
  const turns = readCount("turns", values.turns, values.quick ? 1 : 9, maxTurns, usage)
  const seconds = readCount("seconds", values.seconds, values.quick ? 1 : 3, 60, usage)
  const warmUpSeconds = values.quick ? 1 : 5
  if (turns < fewestTurns) say(`with fewer than ${fewestTurns} turns nothing is certain`)
  const commits = [await commitOf(first), await commitOf(second)]
  const settings = Object.fromEntries(values.with.map(settingOf))
  const names = commits.map(nameOf)
  if (values.with.length > 0) names[1] += ` with ${values.with.join(" and ")}`
  const main = await buildOf(commits[0]!)
  const mains = [main, commits[1] === commits[0] ? main : await buildOf(commits[1]!)] as const
  const asking = only.has("limited") ? askersIn(turns) : 0
  const registered =
    only.has("logins") || asking > 0 ? { registered: await peopleFor({ signInSeconds: 0, asking }) } : {}
  const sizes = { audience, authors, idlers: 0, ...registered }
  await Harness.use(sizes, mains[0], one =>
    Harness.use(sizes, mains[1], async other => {
      const compareIn = async (served: readonly Served[], part: Part) => {
        const { unit, isFigure = false, counted = allOf, open, openBare } = comparedIn(part)
        say(part)
        const sides: Side[] = []
        for (const [i, server] of served.entries())
          sides.push({ name: names[i]!, parts: counted(server.starling), work: await open(server) })
        if (openBare) sides.push({ name: "bare", ...(await openBare(served[0]!)) })
        for (const side of sides) await side.work(warmUpSeconds)
        const measured: number[][] = []
        for (let turn = 0; turn < turns; turn++) {
          const figures: number[] = []
          const order = sides.map((_, i) => (turn % 2 === 0 ? i : sides.length - 1 - i))
          for (const i of order) figures[i] = await measure(sides[i]!, isFigure, seconds)
          measured.push(figures)
        }
        const shown = sides.map(({ name }) => name)
        process.stdout.write(`${lineOf(unit, shown, measured)}\n`)
      }
      for (const limits of ["off", "on"]) {
        const parts = [...only].filter(part => (comparedIn(part).isLimited === true) === (limits === "on"))
        if (parts.length === 0) continue
        const serve = async (harness: Harness, own: Record<string, string>) =>
          new Served(harness, await harness.startStarling({ RATE_LIMITS: limits, ...own }))
        const served = await Promise.all([serve(one, {}), serve(other, settings)])
        for (const part of parts) await compareIn(served, part)
        for (const { starling } of served) await starling.stop()
      }
    }),
  )
}

const nameOf = (commit: string): string => (commit === "." ? "here" : commit)

const allOf = ({ parts }: Starling): Parts => parts

function settingOf(text: string): [name: string, value: string] {
  const at = text.indexOf("=")
  if (at < 1) throw new Stop(`"${text}" is not NAME=VALUE\n\n${usage}`)
  return [text.slice(0, at), text.slice(at + 1)]
}
