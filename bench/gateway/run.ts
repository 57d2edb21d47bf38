/**
 * `npm run bench -- gateway`: what the gateway costs as it grows, when everybody comes at once, and
 * when nothing happens.
 */
import type { Asked, Bench } from "../bench.ts"
import { benchIdle, firstSessions } from "../idle.ts"
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

const parts = ["sizes", "worker", "storms", "idle", "quiet", "latency"] as const
type Part = (typeof parts)[number]

interface Plan {
  readonly sizes: SizesExtent
  /** Messages to so many of one web worker, beside one process of the bare server. */
  readonly sizesOfOneWorker: readonly number[]
  readonly spreadUsers: number
  readonly storms: StormsExtent
  readonly idle: readonly Extent[]
  readonly latency: BusyExtent
}

function planOf({ runs, isQuick, isKept }: Asked): Plan {
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
          workers: 2,
        },
        sizesOfOneWorker: [10],
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
          workers: 2,
        },
        sizesOfOneWorker: [1_000, 5_000],
        spreadUsers: 1_000,
        storms: { runs, identifying: 5_000, resuming: 10_000, settleSeconds: 3, idleSeconds: 5, workers: [1, 2] },
        idle: [idle(5_000, 65), ...(isKept ? [idle(20_000, 65)] : [])],
        latency: { ...short, warmUpSeconds: 2, seconds: 10, listeners: 1_000, storming: 2_000, floodSeconds: 3 },
      }
}

export const gateway: Bench<Part, GatewayResults> = {
  about:
    "sizes of audiences, storms, idle sessions, latency under load; with --write the memory of 20,000 idle sessions, too",
  parts,
  plan(asked) {
    const { only, runs, isQuick, say } = asked
    const plan = planOf(asked)
    const quiet = { ...quietExtent(isQuick), runs }
    const audience = Math.max(
      ...(only.has("sizes") ? [...plan.sizes.audiences, ...plan.sizes.plainAudiences] : [1]),
      ...(only.has("worker") ? plan.sizesOfOneWorker : [1]),
      ...(only.has("latency") ? [plan.latency.listeners] : [1]),
    )
    const idlers = Math.max(
      ...(only.has("storms") ? [plan.storms.identifying, plan.storms.resuming] : [0]),
      ...(only.has("idle") ? plan.idle.map(one => one.idleSessions + firstSessions) : [0]),
      ...(only.has("quiet") ? [quiet.sessions] : [0]),
      ...(only.has("latency") ? [plan.latency.storming] : [0]),
    )
    const spreads = only.has("sizes") ? { spreads: { users: plan.spreadUsers, servers: [...plan.sizes.servers] } } : {}
    return {
      sizes: { audience, authors: 0, idlers, ...spreads },
      extent: { runs },
      async measure(harness, about) {
        const results: GatewayResults = about
        if (only.has("idle")) {
          results.idle = []
          for (const extent of plan.idle) results.idle.push(await benchIdle(harness, extent, say))
        }
        if (only.has("quiet")) results.quiet = await benchQuiet(harness, quiet, say)
        if (only.has("sizes")) results.sizes = await benchSizes(harness, plan.sizes, say)
        if (only.has("worker")) {
          const alone = { ...plan.sizes, workers: 1, audiences: [], servers: [], plainAudiences: plan.sizesOfOneWorker }
          results.sizes = [...(results.sizes ?? []), ...(await benchSizes(harness, alone, say))]
        }
        if (only.has("storms")) results.storms = await benchStorms(harness, plan.storms, say)
        if (only.has("latency")) results.latency = await benchBusy(harness, plan.latency, say)
        return results
      },
      lines: summarize,
      charts: results => (results.sizes ? { sizes: sizesChart(results, results.sizes) } : {}),
    }
  },
}
