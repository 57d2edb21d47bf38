/**
 * `npm run bench -- read-state`: what reading costs, by messages that are stored and by people who
 * read.
 */
import type { Bench } from "../bench.ts"
import { microseconds, pair, partsOf, ratio, round } from "../report.ts"
import type { About, Line } from "../report.ts"
import { figure } from "../statistics.ts"
import { sum } from "../trials.ts"
import { benchCosts, benchUnread, type CostCase, type CostRun } from "./costs.ts"
import { plantReadings, type Extents } from "./plant.ts"
import { benchPlans, type PlanResult } from "./plans.ts"

const parts = ["costs", "unread", "plans"] as const

/** The most that the largest size may cost, in parts of the smallest. */
const aim = 1.5

interface ReadStateResults extends About {
  costs?: CostCase[]
  unread?: { servers: number; channels: number; ahead: number; runs: CostRun[] }
  plans?: PlanResult[]
}

export const readState: Bench<(typeof parts)[number], ReadStateResults> = {
  about: "acknowledgements, unread counts and receipts by stored messages and readers",
  parts,
  plan({ only, runs, isQuick, say }) {
    const extents: Extents = isQuick
      ? { messages: [1_000, 20_000], readers: [10, 100, 1_000], servers: 10, channelsOfEach: 10 }
      : {
          messages: [1_000, 10_000, 100_000, 1_000_000],
          readers: [10, 100, 1_000, 10_000],
          servers: 200,
          channelsOfEach: 50,
        }
    const extent = { runs, count: isQuick ? 64 : 256, idleSeconds: isQuick ? 1 : 4, settleSeconds: 0.3 }
    return {
      sizes: { audience: 1, authors: 0, idlers: 0 },
      extent: { runs },
      async measure(harness, about) {
        const results: ReadStateResults = about
        say(`channels of up to ${extents.messages.at(-1)!.toLocaleString("en")} messages`)
        const readings = await plantReadings(harness.databaseUrl, extents)
        if (only.has("costs")) results.costs = await benchCosts(harness, readings, extent, say)
        if (only.has("unread"))
          results.unread = { ...readings.joined, runs: await benchUnread(harness, readings, extent) }
        if (only.has("plans")) results.plans = await benchPlans(harness.databaseUrl, readings)
        return results
      },
      lines: summarize,
      sided: ["the smallest", "larger ones"],
    }
  },
}

const number = (value: number) => value.toLocaleString("en")
const cpuOf = (runs: readonly CostRun[]) => figure(runs.map(run => sum(run.cpuByPart)))
const latencies = (runs: readonly CostRun[]) =>
  pair(figure(runs.map(run => run.latency.p50)), figure(runs.map(run => run.latency.p99)))

function summarize({ costs = [], unread, plans = [] }: ReadStateResults): Line[] {
  return [
    ...costs.map(({ work, by, sizes, cpu }) => {
      const [smallest, ...others] = sizes
      const larger = others.map(({ size, runs }) => `${number(size)}: ${microseconds(cpuOf(runs))}`).join(", ")
      const largest = sizes.at(-1)!.runs
      return {
        work: `CPU: ${work}, by ${by}`,
        bare: `${number(smallest!.size)}: ${microseconds(cpuOf(smallest!.runs))}`,
        starling: `${larger} (${partsOf(largest.map(run => run.cpuByPart))}; p50 / p99 ${latencies(largest)})`,
        ...ratio(cpu, aim),
      }
    }),
    ...(unread
      ? [
          {
            work: `CPU: all that is unread in ${number(unread.channels)} channels of ${number(unread.servers)} servers`,
            bare: `${number(unread.ahead)} with something new`,
            starling: `${partsOf(unread.runs.map(run => run.cpuByPart))}; p50 / p99 ${latencies(unread.runs)}`,
            value: cpuOf(unread.runs),
            unit: "µs",
          } satisfies Line,
        ]
      : []),
    ...plans.map(({ statement, sizes }): Line => {
      const [small, large] = [sizes[0]!, sizes.at(-1)!]
      return {
        work: `blocks read: ${statement}`,
        bare: `${number(small.size)}: ${number(small.blocks)}, ${round(small.milliseconds)} ms`,
        starling: `${number(large.size)}: ${number(large.blocks)}, ${round(large.milliseconds)} ms: ${large.ways}`,
        value: figure([large.blocks / Math.max(1, small.blocks)]),
        unit: "×",
      }
    }),
  ]
}
