import { barChart } from "../plot.ts"
import { idleLines, microseconds, pair, partsOf, ratio, round, subtitleOf } from "../report.ts"
import type { About, Line } from "../report.ts"
import type { IdleResult } from "../idle.ts"
import { figure, median } from "../statistics.ts"
import type { Figure } from "../statistics.ts"
import { sum } from "../trials.ts"
import type { BusyResult } from "./busy.ts"
import type { QuietResult } from "./quiet.ts"
import type { SizeResult } from "./sizes.ts"
import type { StormsResult } from "./storms.ts"

export interface GatewayResults extends About {
  sizes?: SizeResult[]
  storms?: StormsResult
  /** Memory, of one number of sessions after the other. */
  idle?: IdleResult[]
  quiet?: QuietResult
  latency?: BusyResult[]
}

/** A smaller audience shares the cost of its post among few. */
const aimsFrom = 1_000
/** What a message costs by itself no longer shows. */
const largeFrom = 5_000
const number = (value: number) => value.toLocaleString("en")

export function summarize({ sizes, storms, idle, quiet, latency }: GatewayResults): Line[] {
  return [
    ...(sizes ?? []).flatMap(sizeLines),
    ...(storms ? stormLines(storms) : []),
    ...(idle ?? []).flatMap(idleLines),
    ...(quiet ? quietLines(quiet) : []),
    ...(latency ? latencyLines(latency) : []),
  ]
}

const nameOf = ({ clients, workers, sessions, servers }: SizeResult) =>
  `${number(sessions)} ${clients === "mixed" ? "sessions, mixed" : "sessions, JSON only"}${servers > 1 ? `, over ${servers} servers` : ""}${workers === 1 ? ", one web worker" : ""}`

function sizeLines(size: SizeResult): Line[] {
  const isHeld = size.sessions >= aimsFrom && size.servers === 1
  const cases = [
    ["one at a time", size.oneAtATime, size.sessions >= largeFrom ? 1.05 : 1.25],
    [`${size.saturated.inFlight} in flight`, size.saturated, 1.25],
  ] as const
  return cases.map(([how, { cpu, runs }, aim]) => ({
    work: `CPU per delivery, ${nameOf(size)}, ${how}`,
    bare: microseconds(cpu.bare),
    starling: `${microseconds(cpu.starling)} (${partsOf(runs.starling.map(run => run.cpuByPart))})`,
    ...ratio(cpu, isHeld ? aim : undefined),
  }))
}

function stormLines({ identify, resume }: StormsResult): Line[] {
  const of = <R>(runs: readonly R[], value: (run: R) => number) => figure(runs.map(value))
  const { bare, starling } = identify.runs
  const total = of(starling, run => sum(run.identifyCpu))
  const queries = of(starling, run => run.queries ?? NaN)
  const seconds = ({ median }: Figure) => `${round(median)} s`
  const lines: Line[] = [
    {
      work: `CPU per IDENTIFY, ${number(starling[0]!.sessions)} at once, warm cache`,
      bare: microseconds(identify.cpu.bare),
      starling: `${microseconds(total)} (${partsOf(starling.map(run => run.identifyCpu))})`,
      value: total,
      unit: "µs",
      aim: 200,
    },
    {
      work: "… CPU to connect, up to HELLO",
      bare: microseconds(identify.connectCpu.bare),
      starling: microseconds(identify.connectCpu.starling),
      ...ratio(identify.connectCpu),
    },
    {
      work: "… IDENTIFY to READY, p50 / p99",
      bare: pair(
        of(bare, run => run.p50),
        of(bare, run => run.p99),
      ),
      starling: pair(
        of(starling, run => run.p50),
        of(starling, run => run.p99),
      ),
    },
    {
      work: "… until the last is READY",
      bare: seconds(of(bare, run => run.seconds)),
      starling: seconds(of(starling, run => run.seconds)),
    },
    {
      work: "… queries per session",
      bare: "",
      starling: `of memberships ${round(median(starling.map(run => run.membershipQueries ?? NaN)))}`,
      value: queries,
      unit: "",
      aim: 0.1,
    },
  ]
  for (const { workers, runs, cpu } of resume) {
    const resumed = of(runs.starling, run => run.resumed)
    const refused = runs.starling.reduce((all, run) => all + run.refused, 0)
    const back = of(runs.starling, run => Math.max(0, run.backSeconds! - run.takenOverSeconds!))
    lines.push(
      {
        work: `take-over to all back, ${number(resumed.median)} sessions of a killed worker, ${workers} worker${workers > 1 ? "s" : ""}`,
        bare: "",
        starling: `taken over after ${seconds(of(runs.starling, run => run.takenOverSeconds!))}, ${refused} refused`,
        value: back,
        unit: "s",
        aim: 5,
      },
      {
        work: "… CPU per resume, connecting included, a restart's deducted",
        bare: microseconds(cpu.bare),
        starling: `${microseconds(cpu.starling)} (${partsOf(runs.starling.map(run => run.cpu))})`,
        ...ratio(cpu),
      },
      {
        work: "… away, p50 / p99",
        bare: pair(
          of(runs.bare, run => run.awayP50),
          of(runs.bare, run => run.awayP99),
        ),
        starling: pair(
          of(runs.starling, run => run.awayP50),
          of(runs.starling, run => run.awayP99),
        ),
      },
      {
        work: "… times that a log was joined",
        bare: "",
        starling: `${round(median(runs.starling.map(run => run.replayReads!)))} reads`,
        value: of(runs.starling, run => run.joins!),
        unit: "",
        // Once by each worker that sessions come to.
        aim: workers,
      },
    )
  }
  return lines
}

function quietLines({ sessions, runs }: QuietResult): Line[] {
  const total = figure(runs.map(run => sum(run.connected)))
  const more = figure(runs.map(run => sum(run.connected) - sum(run.empty)))
  return [
    {
      work: `CPU of ${number(sessions)} idle sessions, heartbeats answered`,
      bare: `${round(median(runs.map(run => run.bare.connected)))} ms/s, no socket: ${round(median(runs.map(run => run.bare.empty)))} ms/s`,
      starling: partsOf(
        runs.map(run => run.connected),
        "ms/s",
      ),
      value: total,
      unit: "ms/s",
      aim: 25,
    },
    {
      work: "… more than with no session",
      bare: "",
      starling: partsOf(
        runs.map(run => run.empty),
        "ms/s with no session",
      ),
      value: more,
      unit: "ms/s",
    },
  ]
}

function latencyLines(results: readonly BusyResult[]): Line[] {
  const [idle] = results
  return results.flatMap(({ meanwhile, ways, fellBehind }, i) => [
    ...ways.map(({ postedAtOwner, heardAtOwner, p50, p99 }, way): Line => {
      const alone = idle!.ways[way]!
      const places = `${postedAtOwner ? "owner" : "other"} to ${heardAtOwner ? "owner" : "other"}`
      // What is promised begins at the channel's owner, with nothing else going on.
      const aim = i === 0 && postedAtOwner ? { aim: heardAtOwner ? 2 : 3 } : {}
      return {
        work: i === 0 ? `post to frame, idle, ${places}` : `… ${meanwhile}, ${places}`,
        bare: i === 0 ? "" : `idle: ${pair(alone.p50, alone.p99)}`,
        starling: pair(p50, p99),
        value: p50,
        unit: "ms",
        ...aim,
      }
    }),
    ...(Math.max(...fellBehind) > 0
      ? [
          {
            work: "… sessions that fell behind meanwhile",
            bare: "",
            starling: "",
            value: figure(fellBehind),
            unit: "",
          } as const,
        ]
      : []),
  ])
}

/** What a delivery costs, over how many hear it. */
export function sizesChart(results: GatewayResults, sizes: readonly SizeResult[]): string {
  const parts = ["node", "postgres", "redis"]
  const bars = (["oneAtATime", "saturated"] as const).flatMap(rate =>
    sizes.flatMap(size =>
      (["bare", "starling"] as const).map(side => ({
        label: `${side === "bare" ? "bare" : "Starling"}, ${nameOf(size)}${rate === "oneAtATime" ? "" : `, ${size[rate].inFlight} in flight`}`,
        parts: parts.map(part => median(size[rate].runs[side].map(run => run.cpuByPart[part] ?? 0))),
        text: microseconds(size[rate].cpu[side]) + (side === "bare" ? "" : `, ${round(size[rate].cpu.ratio.median)} ×`),
      })),
    ),
  )
  return barChart({
    title: "CPU per delivery by size of the audience",
    subtitle: subtitleOf(results),
    legend: ["Node", "PostgreSQL", "Redis"],
    bars,
  })
}
