/**
 * `npm run bench -- readme`: measures what the tables of the README and of bench/README.md show, and
 * prints their rows. `npm run bench -- rows` prints those of the latest kept results.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import { round, type Line } from "./report.ts"
import { Stop } from "./stop.ts"

const folder = join(import.meta.dirname, "results")

/** Each with the ending of its results. */
const kinds = {
  main: "",
  gateway: "-gateway",
  accounts: "-accounts",
  history: "-history",
} as const
type Kind = keyof typeof kinds

/** What is run for the rows, one after another. */
const measured: readonly (readonly string[])[] = [
  [],
  ["gateway", "--only", "storms", "--write"],
  ["accounts", "--only", "me", "--write"],
  ["history", "--write"],
]

export interface Kept {
  readonly at: string
  readonly commit: string
  readonly isQuick: boolean
  readonly summary: readonly Line[]
}

interface Row {
  readonly work: string
  readonly kind: Kind
  /** How the lines begin that it is made of. */
  readonly lines: readonly string[]
  readonly aim: string
}

const readmeRows: readonly Row[] = [
  {
    work: "CPU per delivery, 1,000 sessions, 32 posts in flight, one web worker beside one bare process / two beside two",
    kind: "main",
    lines: ["CPU per delivery, one web worker, 32 posts in flight", "CPU per delivery, 32 posts in flight"],
    aim: "1.25 ×",
  },
  {
    work: "CPU per acknowledged post, 128 in flight, search index to its end included (bare: one multi-row insert)",
    kind: "main",
    lines: ["CPU per accepted post"],
    aim: "5 ×",
  },
  {
    work: "Post to frame, p50 / p99, same worker; other worker",
    kind: "main",
    lines: [
      "post to frame, posted at the owner, heard at the owner",
      "post to frame, posted at the owner, heard at the other",
    ],
    aim: "2; 3 ms",
  },
  {
    work: "Memory per idle session in 10 servers, of 20,000",
    kind: "main",
    lines: ["memory per idle session"],
    aim: "5 KiB",
  },
  {
    work: "10,000 sessions of a worker that was killed: from the take-over of its shards until all have resumed",
    kind: "gateway",
    lines: ["take-over to all back, 10,000 sessions"],
    aim: "5 s",
  },
]

const heading = "| Work | Bare | Starling | Ratio | Aim |\n|---|---|---|---|---|"
/** Without what is in parentheses: where it comes from by process. */
const plain = (figure: string) => figure.replace(/ \([^)]*\)$/, "")
const joined = (figures: readonly string[]) =>
  [...new Set(figures)].join(figures.some(one => one.includes("/")) ? "; " : " / ")
const shownOf = ({ value, unit }: Line) => (value ? `${round(value.median)} ${unit}`.trimEnd() : "")

/** A row of the README; one of whose lines nothing is kept says so. */
export function readmeRow({ work, kind, lines, aim }: Row, kept: ReadonlyMap<Kind, Kept>): string {
  const summary = kept.get(kind)?.summary ?? []
  const found = lines.map(begin => summary.find(line => line.work.startsWith(begin)))
  if (found.some(line => line === undefined)) return `| ${work} | | not measured | | ${aim} |`
  const all = found as Line[]
  const isRatio = all[0]!.unit === "×"
  // What is held against its aim is the value, where that is no ratio.
  const starling = isRatio || all[0]!.unit === "ms" ? all.map(line => plain(line.starling)) : all.map(shownOf)
  return `| ${[work, joined(all.map(line => plain(line.bare))), joined(starling), isRatio ? joined(all.map(shownOf)) : "", aim].join(" | ")} |`
}

/** All that is kept of a kind, but for what stands below a line. */
export function docsRows(kept: ReadonlyMap<Kind, Kept>): string[] {
  return [...kept.values()].flatMap(({ summary }) =>
    summary
      .filter(line => !line.work.startsWith("…"))
      .map(line => {
        const aim = line.aim === undefined ? "" : `${line.aim} ${line.unit}`.trimEnd()
        return `| ${[line.work, plain(line.bare), plain(line.starling), shownOf(line), aim].join(" | ")} |`
      }),
  )
}

/** The newest of each kind; quick runs do not count. */
export async function keptResults(from = folder): Promise<Map<Kind, Kept>> {
  const newest = new Map<Kind, Kept>()
  const files = (await readdir(from)).filter(name => name.endsWith(".json"))
  for (const [kind, suffix] of Object.entries(kinds) as [Kind, string][]) {
    const named = new RegExp(`^\\d{4}-\\d\\d-\\d\\d-(?:[0-9a-f]{7,}|unknown)(?:-changed)?${suffix}\\.json$`)
    for (const name of files.filter(file => named.test(file))) {
      const results = JSON.parse(await readFile(join(from, name), "utf8")) as Kept
      const before = newest.get(kind)
      if (!results.isQuick && (!before || results.at > before.at)) newest.set(kind, results)
    }
  }
  return newest
}

export async function showRows(): Promise<void> {
  const kept = await keptResults()
  const made = [...kept].map(([kind, { at, commit }]) => `${kind}: ${at.slice(0, 10)}, ${commit}`)
  const readme = [heading, ...readmeRows.map(row => readmeRow(row, kept))].join("\n")
  const docs = [heading, ...docsRows(kept)].join("\n")
  process.stdout.write(`${made.join("\n")}\n\nREADME.md\n\n${readme}\n\nbench/README.md\n\n${docs}\n`)
}

export async function benchReadme(args: string[]): Promise<void> {
  if (args.length > 0) throw new Stop("npm run bench -- readme takes no arguments; rows prints what is kept")
  for (const part of measured) {
    const child = spawn("npm", ["run", "--silent", "bench", "--", ...part], { stdio: "inherit" })
    const [code] = (await once(child, "exit")) as [number | null]
    if (code !== 0) throw new Stop(`bench ${part.join(" ")} ended with ${code}`)
  }
  await showRows()
}
