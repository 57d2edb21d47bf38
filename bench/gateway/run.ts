/**
 * `npm run bench -- gateway`: what the gateway costs as it grows, when everybody comes at once, and
 * when nothing happens.
 */
import { parseArgs } from "node:util"
import { measuringOptions, readMeasuring, readParts } from "../arguments.ts"
import { benchIdle, firstSessions } from "../idle.ts"
import { record, show } from "../record.ts"
import type { Extent } from "../trials.ts"
import { benchBusy } from "./busy.ts"
import type { BusyExtent } from "./busy.ts"
import { benchQuiet, quietExtent } from "./quiet.ts"
import { sizesChart, summarize } from "./report.ts"
import type { GatewayResults } from "./report.ts"
import { benchSizes } from "./sizes.ts"
import type { SizesExtent } from "./sizes.ts"
import { benchStorms } from "./storms.ts"
import type { StormsExtent } from "./storms.ts"

const usage = `npm run bench -- gateway [--only sizes,storms,idle,latency] [--runs 3] [--quick] [--write] [--main FILE]

--only   some of the parts
--runs   how often each is measured; medians are shown
--quick  small, short and once: shows that all works, not what it costs
--write  keeps the results, and measures the memory of 20,000 idle sessions too
--main   the server to run; left out, this checkout is built and run`

const parts = ["sizes", "storms", "idle", "latency"] as const
type Part = (typeof parts)[number]

interface Arguments {
  readonly only: ReadonlySet<Part>
  readonly runs: number
  readonly isQuick: boolean
  readonly isKept: boolean
  /** Given when another build than this checkout's is measured. */
  readonly mainFile: string | undefined
}

function readArguments(args: string[]): Arguments {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: "string", default: parts.join(",") },
      ...measuringOptions,
    },
  })
  return {
    only: readParts(parts, values.only, usage),
    ...readMeasuring(values, usage),
  }
}

interface Plan {
  readonly sizes: SizesExtent
  readonly spreadUsers: number
  readonly storms: StormsExtent
  readonly idle: readonly Extent[]
  readonly latency: BusyExtent
}

function planOf({ runs, isQuick, isKept }: Arguments): Plan {
  const short = { runs, countsDeferredWork: false, idleSessions: 0, restSeconds: 0 }
  const idle = (idleSessions: number, restSeconds: number): Extent => ({
    ...short,
    warmUpSeconds: 0,
    seconds: 0,
    idleSessions,
    restSeconds,
  })
  return isQuick
    ? {
        sizes: {
          runs,
          warmUpSeconds: 0.3,
          seconds: 0.5,
          settleSeconds: 0.5,
          audiences: [100],
          plainAudiences: [10],
          sessionsOfALoadGroup: 40,
          servers: [10],
        },
        spreadUsers: 100,
        storms: { runs, identifying: 200, resuming: 200, settleSeconds: 0.5, idleSeconds: 1, workers: [2] },
        idle: [idle(200, 0)],
        latency: { ...short, warmUpSeconds: 0.3, seconds: 1, listeners: 100, storming: 100, floodSeconds: 1.5 },
      }
    : {
        sizes: {
          runs,
          warmUpSeconds: 3,
          seconds: 4,
          settleSeconds: 3,
          audiences: [10, 100, 1_000, 5_000, 20_000],
          plainAudiences: [10, 100, 1_000, 5_000, 20_000],
          // A process has descriptors for less than 20,000.
          sessionsOfALoadGroup: 7_500,
          servers: [1, 10, 100],
        },
        spreadUsers: 1_000,
        storms: { runs, identifying: 5_000, resuming: 10_000, settleSeconds: 3, idleSeconds: 5, workers: [1, 2] },
        idle: [idle(5_000, 17), ...(isKept ? [idle(20_000, 17)] : [])],
        latency: { ...short, warmUpSeconds: 2, seconds: 10, listeners: 1_000, storming: 2_000, floodSeconds: 3 },
      }
}

export async function benchGateway(
  args: string[],
  build: () => Promise<void>,
  say: (what: string) => void,
): Promise<void> {
  const asked = readArguments(args)
  const { only, runs, isQuick, isKept, mainFile } = asked
  const plan = planOf(asked)
  const quiet = { ...quietExtent(isQuick), runs }
  const audience = Math.max(
    ...(only.has("sizes") ? [...plan.sizes.audiences, ...plan.sizes.plainAudiences] : [1]),
    ...(only.has("latency") ? [plan.latency.listeners] : [1]),
  )
  const idlers = Math.max(
    ...(only.has("storms") ? [plan.storms.identifying, plan.storms.resuming] : [0]),
    ...(only.has("idle") ? [quiet.sessions, ...plan.idle.map(one => one.idleSessions + firstSessions)] : [0]),
    ...(only.has("latency") ? [plan.latency.storming] : [0]),
  )
  const spreads = only.has("sizes") ? { spreads: { users: plan.spreadUsers, servers: [...plan.sizes.servers] } } : {}
  const sizes = { audience, authors: 0, idlers, ...spreads }
  const results = await record({ sizes, extent: { runs }, isQuick, mainFile, build, say }, async (harness, about) => {
    const results: GatewayResults = about
    if (only.has("idle")) {
      results.idle = []
      for (const extent of plan.idle) results.idle.push(await benchIdle(harness, extent, say))
      results.quiet = await benchQuiet(harness, quiet, say)
    }
    if (only.has("sizes")) results.sizes = await benchSizes(harness, plan.sizes, say)
    if (only.has("storms")) results.storms = await benchStorms(harness, plan.storms, say)
    if (only.has("latency")) results.latency = await benchBusy(harness, plan.latency, say)
    return results
  })
  const charts = results.sizes ? { sizes: sizesChart(results, results.sizes) } : {}
  await show(results, summarize(results), { isKept, suffix: "-gateway", charts })
}
