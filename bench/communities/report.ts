import { barChart, lineChart } from "../plot.ts"
import { microseconds, pair, partsOf, ratio, round, subtitleOf } from "../report.ts"
import type { About, Line } from "../report.ts"
import { figure, median } from "../statistics.ts"
import type { Figure } from "../statistics.ts"
import { sum } from "../trials.ts"
import type { DeletionCase } from "./deletion.ts"
import type { GrowthCase, GrowthResult, GrowthRun } from "./growth.ts"
import type { MemoryCase } from "./memory.ts"
import type { PlanResult } from "./plans.ts"
import type { NotificationCase } from "./notification-fan-out.ts"

export interface CommunitiesResults extends About {
  growth?: GrowthResult
  notifications?: NotificationCase[]
  memory?: MemoryCase[]
  deletion?: DeletionCase[]
  plans?: PlanResult[]
}

/** The most that the largest server may cost, in parts of the smallest. */
const growthAim = 1.25
/** Milliseconds: a slice of 4 and what has to end before it is over. */
const pauseAim = 10
const laneAim = 200

const number = (value: number) => value.toLocaleString("en")
const milliseconds = (value: Figure) => `${round(value.median)} ms`
const kib = (value: Figure) => `${round(value.median)} KiB`

export function summarize({ growth, notifications, memory, deletion, plans }: CommunitiesResults): Line[] {
  return [
    ...(growth?.cases ?? []).flatMap(growthLines),
    ...(notifications ?? []).flatMap(notificationLines),
    ...(memory ? memoryLines(memory) : []),
    ...(deletion ? deletionLines(deletion) : []),
    ...(plans ?? []).map(planLine),
  ]
}

const cpuOf = (runs: readonly GrowthRun[]) => figure(runs.map(run => sum(run.cpuByPart)))
const latencies = (runs: readonly GrowthRun[]) =>
  pair(figure(runs.map(run => run.latency.p50)), figure(runs.map(run => run.latency.p99)))

function growthLines({ work, sizes, cpu, p50 }: GrowthCase): Line[] {
  const [smallest, ...others] = sizes
  const between = others.slice(0, -1).map(({ runs }) => microseconds(cpuOf(runs)))
  const largest = sizes.at(-1)!
  const parts = partsOf(largest.runs.map(run => run.cpuByPart))
  return [
    {
      work: `CPU: ${work}`,
      bare: microseconds(cpuOf(smallest!.runs)),
      starling: `${[...between, microseconds(cpuOf(largest.runs))].join(", ")} (${parts})`,
      ...ratio(cpu, growthAim),
    },
    {
      work: "… until answered, p50 / p99",
      bare: latencies(smallest!.runs),
      starling: latencies(largest.runs),
      ...ratio(p50),
    },
  ]
}

function notificationLines({
  work,
  sessions,
  workers,
  runs,
  cpu,
  lastToldMs,
  pauseMs,
  restingPauseMs,
}: NotificationCase): Line[] {
  const isBarrier = work.startsWith("channel")
  const lines: Line[] = [
    {
      work: `CPU per session: ${work}, ${number(sessions)} sessions, ${workers} workers`,
      bare: "",
      starling: partsOf(runs.map(run => run.cpuByPart)),
      value: cpu,
      unit: "µs",
    },
    {
      work: "… until the last was told",
      bare: "",
      starling: `answered after ${milliseconds(figure(runs.map(run => run.answeredMs)))}`,
      value: lastToldMs,
      unit: "ms",
    },
    {
      work: "… longest pause of a worker",
      bare: `at rest: ${round(restingPauseMs)} ms`,
      starling: "",
      value: pauseMs,
      unit: "ms",
    },
  ]
  return isBarrier ? lines.map((line, i) => (i === 2 ? { ...line, aim: pauseAim } : line)) : lines
}

function memoryLines(cases: readonly MemoryCase[]): Line[] {
  const [small, large] = [cases[0]!, cases.at(-1)!]
  return [
    {
      work: "memory of a server that wakes, with one session",
      bare: kib(small.server),
      starling: kib(large.server),
      value: large.server,
      unit: "KiB",
    },
    {
      work: `… of each of ${number(large.sessions)} sessions more`,
      bare: kib(small.session),
      starling: kib(large.session),
      value: large.session,
      unit: "KiB",
    },
    {
      work: `… of the second half of ${number(large.askers)} members who asked for it`,
      bare: kib(small.laterAskers),
      starling: kib(large.laterAskers),
      value: large.laterAskers,
      unit: "KiB",
    },
  ]
}

function deletionLines(cases: readonly DeletionCase[]): Line[] {
  const [small, large] = [cases[0]!, cases.at(-1)!]
  return [
    {
      work: `a server is deleted, until answered`,
      bare: milliseconds(small.answeredMs),
      starling: milliseconds(large.answeredMs),
      value: large.answeredMs,
      unit: "ms",
    },
    {
      work: "… the longest that a message of another server took meanwhile",
      bare: milliseconds(small.longestMs),
      starling: `${milliseconds(large.longestMs)} (before: ${milliseconds(large.longestBeforeMs)})`,
      value: large.longestMs,
      unit: "ms",
      aim: laneAim,
    },
  ]
}

function planLine({ page, sizes }: PlanResult): Line {
  const [small, large] = [sizes[0]!, sizes.at(-1)!]
  const blocks = large.blocks / Math.max(1, small.blocks)
  return {
    work: `blocks read: ${page}`,
    bare: `${number(small.blocks)} for ${small.rows} rows`,
    starling: `${number(large.blocks)} for ${large.rows} rows, ${round(large.milliseconds)} ms: ${large.ways}`,
    value: figure([blocks]),
    unit: "×",
  }
}

/** What each thing costs, by how many members the server has. */
export function growthChart(results: CommunitiesResults, { cases }: GrowthResult): string {
  return lineChart({
    title: "CPU of one action by members of the server",
    subtitle: subtitleOf(results),
    across: "members",
    up: "µs",
    lines: cases.map(({ work, sizes }) => ({
      label: work,
      points: sizes.map(({ members, runs }) => [members, cpuOf(runs).median]),
    })),
  })
}

/** What each session that is told costs. */
export function notificationChart(results: CommunitiesResults, notifications: readonly NotificationCase[]): string {
  const parts = ["node", "postgres", "redis"]
  const works = [...new Set(notifications.map(({ work }) => work))]
  const bars = works.flatMap(work =>
    notifications
      .filter(one => one.work === work)
      .map(({ sessions, runs, cpu }) => ({
        label: `${work}, ${number(sessions)} sessions`,
        parts: parts.map(part => Math.max(0, median(runs.map(run => run.cpuByPart[part] ?? 0)))),
        text: microseconds(cpu),
      })),
  )
  return barChart({
    title: "CPU per session that is told",
    subtitle: subtitleOf(results),
    legend: ["Node", "PostgreSQL", "Redis"],
    bars,
  })
}
