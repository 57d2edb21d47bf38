import type { FanOutCase, FanOutResult } from "./fan-out.ts"
import type { IdleResult } from "./idle.ts"
import type { WayResult } from "./latency.ts"
import type { Machine, Versions } from "./machine.ts"
import { barChart } from "./plot.ts"
import type { PostsResult } from "./posts.ts"
import { median } from "./statistics.ts"
import type { Figure } from "./statistics.ts"
import type { Comparison, Extent } from "./trials.ts"

export interface Results {
  at: string
  commit: string
  isQuick: boolean
  extent: Extent
  versions: Versions
  machine: Machine
  seconds: number
  fanOut?: FanOutResult
  /** With one web worker. */
  fanOutOfOne?: FanOutResult
  posts?: PostsResult
  idle?: IdleResult
  latency?: WayResult[]
}

/**
 * One line of the summary. `value` is what is held against the aim: a ratio, or a figure with its
 * unit; a count has none.
 */
export interface Line {
  work: string
  bare: string
  starling: string
  value?: Figure
  unit?: "×" | "KiB" | "µs" | "ms" | "s" | "ms/s" | ""
  aim?: number
}

export const round = (value: number) => {
  if (!Number.isFinite(value)) return "–"
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en")
  return value.toFixed(Math.abs(value) >= 10 ? 1 : 2)
}
export const microseconds = (value: Figure) => `${round(value.median)} µs`
const perSecond = (value: Figure) => `${round(value.median)}/s`
export const pair = (p50: Figure, p99: Figure) => `${round(p50.median)} / ${round(p99.median)} ms`

/** By part, in medians: `node 3.9, postgres 0.1 µs`. */
const byPart = (runs: readonly { cpuByPart: Record<string, number> }[]): string =>
  partsOf(runs.map(run => run.cpuByPart))

export function partsOf(runs: readonly Record<string, number>[], unit = "µs"): string {
  const names = Object.keys(runs[0] ?? {})
  return `${names.map(name => `${name} ${round(median(runs.map(run => run[name]!)))}`).join(", ")} ${unit}`
}

export const ratio = (comparison: Comparison, aim?: number) =>
  ({ value: comparison.ratio, unit: "×", ...(aim !== undefined && { aim }) }) as const

function fanOutLines({ oneAtATime, saturated }: FanOutResult, who: string): Line[] {
  const cases: [string, FanOutCase][] = [
    ["one message at a time", oneAtATime],
    [`${saturated.inFlight} posts in flight`, saturated],
  ]
  return cases.flatMap(([how, one]): Line[] => [
    {
      work: `CPU per delivery, ${who}${how}`,
      bare: microseconds(one.cpu.bare),
      starling: `${microseconds(one.cpu.starling)} (${byPart(one.runs.starling)})`,
      ...ratio(one.cpu, 1.25),
    },
    {
      work: "… the server's own processes",
      bare: microseconds(one.cpuOfNode.bare),
      starling: microseconds(one.cpuOfNode.starling),
      ...ratio(one.cpuOfNode),
    },
    {
      work: "… deliveries",
      bare: perSecond(one.deliveriesPerSecond.bare),
      starling: perSecond(one.deliveriesPerSecond.starling),
      ...ratio(one.deliveriesPerSecond),
    },
    {
      work: "… post to frame, p50 / p99",
      bare: pair(one.p50.bare, one.p99.bare),
      starling: pair(one.p50.starling, one.p99.starling),
      ...ratio(one.p50),
    },
  ])
}

export function summarize({ fanOut, fanOutOfOne, posts, idle, latency }: Results): Line[] {
  const lines: Line[] = []
  if (fanOutOfOne) lines.push(...fanOutLines(fanOutOfOne, "one web worker, "))
  // Two web workers, beside a bare server of two processes.
  if (fanOut) lines.push(...fanOutLines(fanOut, ""))
  if (posts) {
    lines.push(
      {
        work: `CPU per accepted post, ${posts.inFlight} in flight`,
        bare: `${microseconds(posts.cpu.bare)} (${byPart(posts.runs.bare)})`,
        starling: `${microseconds(posts.cpu.starling)} (${byPart(posts.runs.starling)})`,
        ...ratio(posts.cpu, 5),
      },
      {
        work: "… the server's own processes",
        bare: microseconds(posts.cpuOfNode.bare),
        starling: microseconds(posts.cpuOfNode.starling),
        ...ratio(posts.cpuOfNode),
      },
      {
        work: "… posts",
        bare: perSecond(posts.postsPerSecond.bare),
        starling: perSecond(posts.postsPerSecond.starling),
        ...ratio(posts.postsPerSecond),
      },
      {
        work: "… post to answer, p50 / p99",
        bare: pair(posts.p50.bare, posts.p99.bare),
        starling: pair(posts.p50.starling, posts.p99.starling),
        ...ratio(posts.p50),
      },
    )
  }
  if (idle) lines.push(...idleLines(idle))
  for (const { postedAtOwner, heardAtOwner, p50, p99 } of latency ?? []) {
    // What is promised begins at the channel's owner; the way there is told beside it.
    const aim = postedAtOwner ? { aim: heardAtOwner ? 2 : 3 } : {}
    lines.push({
      work: `post to frame, posted at the ${postedAtOwner ? "owner" : "other"}, heard at the ${heardAtOwner ? "owner" : "other"}`,
      bare: "",
      starling: pair(p50, p99),
      value: p50,
      unit: "ms",
      ...aim,
    })
  }
  return lines
}

export function idleLines(idle: IdleResult): Line[] {
  const kib = (value: Figure) => `${round(value.median)} KiB`
  return [
    {
      work: `memory per idle session in 10 servers, of ${idle.sessions.toLocaleString("en")}`,
      bare: kib(idle.memory.bare),
      starling: `${kib(idle.memory.starling)} (${partsOf(
        idle.runs.starling.map(run => run.memoryByPart),
        "KiB",
      )})`,
      value: idle.memory.starling,
      unit: "KiB",
      aim: 5,
    },
    {
      work: "… the server's own processes",
      bare: kib(idle.memoryOfNode.bare),
      starling: kib(idle.memoryOfNode.starling),
      value: idle.memoryOfNode.starling,
      unit: "KiB",
    },
    {
      work: "… all of it, with what PostgreSQL keeps of its files meanwhile, 128 MiB at most",
      bare: kib(idle.memory.bare),
      starling: kib(idle.memoryWithCache.starling),
      value: idle.memoryWithCache.starling,
      unit: "KiB",
    },
    {
      work: "… CPU to connect and identify one",
      bare: microseconds(idle.connectCpu.bare),
      starling: microseconds(idle.connectCpu.starling),
      ...ratio(idle.connectCpu),
    },
  ]
}

const shown = ({ value, unit }: Line) => (value ? `${round(value.median)} ${unit}`.trimEnd() : "")
const spread = ({ value }: Line) => (value ? `${round(value.least)} to ${round(value.most)}` : "")
const judged = ({ value, unit, aim }: Line, isQuick: boolean) => {
  if (aim === undefined || !value) return ""
  if (isQuick) return `≤ ${aim} ${unit}`
  // Memory that seems to shrink while sessions come was lost in the noise.
  if (value.least <= 0) return `≤ ${aim} ${unit}, not to be told`
  return `≤ ${aim} ${unit}${value.median <= aim ? " ✓" : " ✗"}`
}

/** What stands over the two columns of figures. */
export type Sided = readonly [bare: string, starling: string]

/** A table that can go into the README as it is. A quick run is not held against the aims. */
export function table(lines: readonly Line[], isQuick: boolean, sided: Sided = ["bare", "Starling"]): string {
  const rows = [
    ["Work", ...sided, "ratio or value", "runs", "aim"],
    ...lines.map(line => [line.work, line.bare, line.starling, shown(line), spread(line), judged(line, isQuick)]),
  ]
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map(row => row[column]!.length)))
  const write = (cells: string[]) => `| ${cells.map((cell, i) => cell.padEnd(widths[i]!)).join(" | ")} |`
  const rule = `|${widths.map(width => "-".repeat(width + 2)).join("|")}|`
  return [write(rows[0]!), rule, ...rows.slice(1).map(write)].join("\n")
}

/** What is said of every run. */
export interface About {
  at: string
  commit: string
  isQuick: boolean
  extent: Pick<Extent, "runs">
  versions: Versions
  machine: Machine
  seconds: number
}

export function caption({ commit, versions, machine, extent, isQuick }: About): string {
  const { starling, node, postgres, redis, uWebSockets, kernel } = versions
  return [
    `Starling ${starling} (${commit}), Node ${node}, PostgreSQL ${postgres}, Redis ${redis}, uWebSockets.js ${uWebSockets}, Linux ${kernel}`,
    `${machine.cores} cores (${machine.cpu}), ${machine.memoryGiB} GiB; medians of ${extent.runs} runs in turn${isQuick ? ", quick: for a first impression only" : ""}`,
  ].join("\n")
}

/** What is held against an aim, in parts of that aim. */
export function ratioChart(results: About, lines: readonly Line[]): string {
  const bars = lines.flatMap(line =>
    line.value && line.aim !== undefined
      ? [
          {
            label: line.work,
            parts: [line.value.median / line.aim],
            text: `${shown(line)}, aim ≤ ${line.aim} ${line.unit}`,
            aim: 1,
          },
        ]
      : [],
  )
  return barChart({ title: "Starling against its aims", subtitle: subtitleOf(results), legend: [], bars })
}

/** What a delivery costs, and where. */
export function fanOutChart(results: Results, fanOut: FanOutResult): string {
  const parts = ["node", "postgres", "redis"]
  const bars = [fanOut.oneAtATime, fanOut.saturated].flatMap(({ inFlight, runs, cpu }) =>
    (["bare", "starling"] as const).map(side => ({
      label: `${side === "bare" ? "bare publish()" : "Starling"}, ${inFlight === 1 ? "one at a time" : `${inFlight} in flight`}`,
      parts: parts.map(part => median(runs[side].map(run => run.cpuByPart[part] ?? 0))),
      text: microseconds(cpu[side]) + (side === "bare" ? "" : `, ${round(cpu.ratio.median)} ×`),
    })),
  )
  return barChart({
    title: `CPU per delivery to ${fanOut.sessions.toLocaleString("en")} sessions, frames of ${fanOut.frameBytes} bytes`,
    subtitle: subtitleOf(results),
    legend: ["Node", "PostgreSQL", "Redis"],
    bars,
  })
}

export const subtitleOf = ({ at, commit, machine, versions }: About) =>
  `${at.slice(0, 10)}, ${commit}, Node ${versions.node}, ${machine.cores} cores (${machine.cpu})`
