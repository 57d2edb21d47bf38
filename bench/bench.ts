/**
 * What a bench is, and the one way to run it: a bench names its parts and options, says for what is
 * asked how much there has to be and what is measured, and how that is shown. To add one, write such a
 * value and name it in `run.ts`.
 */
import { execFile } from "node:child_process"
import { resolve } from "node:path"
import { parseArgs, promisify } from "node:util"
import { maxRuns, readCount, readParts } from "./arguments.ts"
import type { Harness } from "./harness.ts"
import type { Sizes } from "./population.ts"
import { record, root, show, type Keeping } from "./record.ts"
import type { About, Line } from "./report.ts"
import { Stop } from "./stop.ts"

/** What the command line asked for. */
export interface Asked<P extends string = string> {
  readonly only: ReadonlySet<P>
  readonly runs: number
  readonly isQuick: boolean
  /** Whether the results are to be kept. */
  readonly isKept: boolean
  /** Given when another build than this checkout's is measured. */
  readonly mainFile: string | undefined
  /** Of an option of the bench's own. */
  text(name: string): string | undefined
  count(name: string, fallback: number, most: number): number
  counts(name: string, fallback: string, most: number): number[]
  say(what: string): void
}

/** What is measured, and how it is shown. */
export interface Plan<R extends About> {
  /** Who and what is in the database. */
  readonly sizes: Sizes
  /** How often and how long; kept with the results. */
  readonly extent: R["extent"]
  /** Adds what was measured to what is said of every run. */
  measure(harness: Harness, about: About & { extent: R["extent"] }): Promise<R>
  /** Left out where something else than lines is shown. */
  lines?(results: R): Line[]
  charts?(results: R): Keeping["charts"]
  /** Where what is compared is not a bare server and Starling. */
  readonly sided?: Keeping["sided"]
  after?(results: R): Promise<void>
}

export interface Bench<P extends string, R extends About> {
  readonly about: string
  /** For `--only`. */
  readonly parts?: readonly P[]
  /** What of it can be set besides, each with a sentence. */
  readonly options?: Readonly<Record<string, string>>
  /** Results are kept without `--write`, too. */
  readonly isAlwaysKept?: boolean
  plan(asked: Asked<P>): Plan<R> | Promise<Plan<R>>
}

/** As the table has it: whatever its parts and results are. */
export interface Entry {
  readonly about: string
  run(name: string, args: string[], say: (what: string) => void): Promise<void>
}

/** For what is no bench, but is asked for in the same way. */
export const command = (about: string, run: (args: string[], say: (what: string) => void) => Promise<void>): Entry => ({
  about,
  run: (_, args, say) => run(args, say),
})

const common = {
  runs: "how often each is measured; medians are shown",
  quick: "small, short and once: shows that all works, not what it costs",
  write: "keeps the results",
  main: "the server to run; left out, this checkout is built and run",
}

function usageOf<P extends string, R extends About>(name: string, { parts, options = {}, isAlwaysKept }: Bench<P, R>) {
  const { write, ...others } = common
  const all = {
    ...(parts && { only: `some of the parts: ${parts.join(",")}` }),
    ...options,
    ...(isAlwaysKept ? others : { ...others, write }),
  }
  const lines = Object.entries(all).map(([option, about]) => `--${option.padEnd(11)} ${about}`)
  return `npm run bench${name ? ` -- ${name}` : ""} [options]\n\n${lines.join("\n")}`
}

/** The bench as it stands in the table. */
export function entryOf<P extends string, R extends About>(bench: Bench<P, R>): Entry {
  return { about: bench.about, run: (name, args, say) => run(name, bench, args, say) }
}

async function run<P extends string, R extends About>(
  name: string,
  bench: Bench<P, R>,
  args: string[],
  say: (what: string) => void,
): Promise<void> {
  const asked = readAsked(name, bench, args, say)
  const { isQuick, mainFile } = asked
  const plan = await bench.plan(asked)
  const { sizes, extent } = plan
  const results = await record({ sizes, extent, isQuick, mainFile, build, say }, (harness, about) =>
    plan.measure(harness, about),
  )
  if (plan.lines) {
    const charts = plan.charts?.(results)
    const { sided } = plan
    const keeping = {
      isKept: asked.isKept,
      suffix: name && `-${name}`,
      ...(charts && { charts }),
      ...(sided && { sided }),
    }
    await show(results, plan.lines(results), keeping)
  }
  await plan.after?.(results)
}

function readAsked<P extends string, R extends About>(
  name: string,
  bench: Bench<P, R>,
  args: string[],
  say: (what: string) => void,
): Asked<P> {
  const { parts = [], options = {}, isAlwaysKept = false } = bench
  const usage = usageOf(name, bench)
  const known = ["runs", "main", ...(parts.length > 0 ? ["only"] : []), ...Object.keys(options)]
  const values = readOptions(args, known, isAlwaysKept ? ["quick"] : ["quick", "write"], usage)
  const text = (option: string) => values[option] as string | undefined
  const isQuick = values["quick"] === true
  const main = text("main")
  return {
    only: parts.length === 0 ? new Set() : readParts(parts, text("only") ?? parts.join(","), usage),
    runs: readCount("runs", text("runs"), isQuick ? 1 : 3, maxRuns, usage),
    isQuick,
    isKept: isAlwaysKept || values["write"] === true,
    mainFile: main === undefined ? undefined : resolve(main),
    text,
    count: (option, fallback, most) => readCount(option, text(option), fallback, most, usage),
    counts: (option, fallback, most) =>
      (text(option) ?? fallback).split(",").map(count => readCount(option, count, 1, most, usage)),
    say,
  }
}

function readOptions(args: string[], texts: readonly string[], flags: readonly string[], usage: string) {
  if (args.includes("--help")) throw new Stop(usage)
  const options = {
    ...Object.fromEntries(texts.map(name => [name, { type: "string" } as const])),
    ...Object.fromEntries(flags.map(name => [name, { type: "boolean" } as const])),
  }
  try {
    return parseArgs({ args, options }).values
  } catch (cause) {
    throw new Stop(`${(cause as Error).message}\n\n${usage}`, { cause })
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
