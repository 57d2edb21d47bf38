/**
 * What every benchmark in a harness has around it: the build, the harness, what is said of a run,
 * and keeping that.
 */
import { mkdir, writeFile } from "node:fs/promises"
import { loadavg } from "node:os"
import { join } from "node:path"
import { Harness } from "./harness.ts"
import { commit, machine, versions } from "./machine.ts"
import type { Sizes } from "./population.ts"
import { caption, ratioChart, table } from "./report.ts"
import type { About, Line, Sided } from "./report.ts"
import { Stop } from "./stop.ts"

export const root = join(import.meta.dirname, "..")

export interface Occasion<E extends About["extent"]> {
  readonly sizes: Sizes
  readonly extent: E
  readonly isQuick: boolean
  /** Given when another build than this checkout's is measured. */
  readonly mainFile: string | undefined
  readonly build: () => Promise<void>
  readonly say: (what: string) => void
}

/**
 * Builds, opens a harness, measures in it, and closes it. @param measure adds to what is said of
 * every run
 */
export async function record<E extends About["extent"], R extends About>(
  { sizes, extent, isQuick, mainFile, build, say }: Occasion<E>,
  measure: (harness: Harness, about: About & { extent: E }) => Promise<R>,
): Promise<R> {
  if (process.platform !== "linux") throw new Stop("the benchmark reads /proc, so it runs on Linux only")
  const startedAt = performance.now()
  const [loadBefore] = loadavg()
  if (mainFile === undefined) await build()
  say("starting PostgreSQL and Redis, and peopling the database")
  return Harness.use(sizes, mainFile ?? join(root, "dist", "src", "main.js"), async harness => {
    const results = await measure(harness, {
      at: new Date().toISOString(),
      commit: commit(),
      isQuick,
      extent,
      versions: await versions(harness.databaseUrl, harness.redisUrl),
      machine: machine(loadBefore!),
      seconds: 0,
    })
    return { ...results, seconds: Math.round((performance.now() - startedAt) / 1_000) }
  })
}

/** Where results are kept: as `<date>-<commit><suffix>`. `charts`: SVG by ending. */
export interface Keeping {
  readonly isKept: boolean
  readonly suffix?: string
  readonly charts?: Readonly<Record<string, string>>
  /** Where what is compared is not a bare server and Starling. */
  readonly sided?: Sided
}

export async function show(
  results: About,
  lines: readonly Line[],
  { isKept, suffix = "", charts = {}, sided }: Keeping,
): Promise<void> {
  let kept = ""
  if (isKept) {
    const folder = join(root, "bench", "results")
    const ending = results.isQuick ? "-quick" : ""
    const name = `${results.at.slice(0, 10)}-${results.commit.replace("+", "-changed")}${suffix}${ending}`
    await mkdir(folder, { recursive: true })
    const write = (ending: string, content: string) => writeFile(join(folder, `${name}${ending}`), content)
    await write(".json", `${JSON.stringify({ ...results, summary: lines }, undefined, 2)}\n`)
    if (lines.some(line => line.aim !== undefined)) await write("-aims.svg", ratioChart(results, lines))
    for (const [ending, chart] of Object.entries(charts)) await write(`-${ending}.svg`, chart)
    kept = `; kept as bench/results/${name}.json`
  }
  process.stdout.write(
    `\n${caption(results)}\n\n${table(lines, results.isQuick, sided)}\n\n${results.seconds} s${kept}\n`,
  )
}
