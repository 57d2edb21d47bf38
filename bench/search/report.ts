import { microseconds, pair, ratio, round } from "../report.ts"
import type { About, Line } from "../report.ts"
import { figure } from "../statistics.ts"
import { compare } from "../trials.ts"
import type { FillResult } from "./fill.ts"
import type { QueriesRun } from "./queries.ts"
import type { SendingResult, SendingRun } from "./sending.ts"

export interface SearchResults extends About {
  sending?: SendingResult[]
  fill?: FillResult
  queries?: QueriesRun[]
}

/** Of what sending costs the web workers without the index. */
const sendingAim = 1.05
/** Milliseconds at the 99th percentile. */
const searchAim = 50

export function summarize({ sending, fill, queries }: SearchResults): Line[] {
  return [
    ...(sending ?? []).flatMap(sendingLines),
    ...(fill
      ? [
          {
            work: `indexing ${fill.messages.toLocaleString("en")} messages, each`,
            bare: "",
            starling: `${round(fill.microseconds)} µs, ${round(fill.bytes)} bytes`,
          },
        ]
      : []),
    ...(queries ?? []).map(({ kind, latency, results }): Line => {
      const p99 = figure([latency.p99])
      return {
        work: kind,
        bare: "",
        starling: `p50 ${round(latency.p50)} ms, ${round(results)} results`,
        value: p99,
        unit: "ms",
        aim: searchAim,
      }
    }),
  ]
}

function sendingLines({ inFlight, runs }: SendingResult): Line[] {
  const of = (value: (run: SendingRun) => number) => compare(runs, value, value)
  const [p50, p99, cpu, webWorkers, after, all, postgres, rate] = [
    of(run => run.latency.p50),
    of(run => run.latency.p99),
    of(run => run.cpu),
    of(run => run.cpuOfWebWorkers),
    of(run => run.cpuAfterwards),
    of(run => run.cpu + run.cpuAfterwards),
    of(run => run.cpuOfPostgres),
    of(run => run.postsPerSecond),
  ]
  return [
    {
      work: `post to answer, ${inFlight} in flight, p50 / p99`,
      bare: pair(p50.bare, p99.bare),
      starling: pair(p50.starling, p99.starling),
      ...ratio(p50),
    },
    { work: "… posts a second", bare: round(rate.bare.median), starling: round(rate.starling.median), ...ratio(rate) },
    {
      work: "… CPU while they are sent",
      bare: microseconds(cpu.bare),
      starling: microseconds(cpu.starling),
      ...ratio(cpu),
    },
    {
      work: "… of it the web workers'",
      bare: microseconds(webWorkers.bare),
      starling: microseconds(webWorkers.starling),
      ...ratio(webWorkers, sendingAim),
    },
    { work: "… CPU in the 17 s after", bare: microseconds(after.bare), starling: microseconds(after.starling) },
    { work: "… CPU together", bare: microseconds(all.bare), starling: microseconds(all.starling), ...ratio(all) },
    {
      work: "… of it PostgreSQL's",
      bare: microseconds(postgres.bare),
      starling: microseconds(postgres.starling),
      ...ratio(postgres),
    },
  ]
}
