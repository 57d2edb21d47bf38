/**
 * `npm run bench -- communities`: what a server costs as its members become many, and as its
 * sessions do.
 */
import { parseArgs } from "node:util"
import { measuringOptions, readCount, readMeasuring, readParts } from "../arguments.ts"
import { record, show } from "../record.ts"
import { benchDeletion } from "./deletion.ts"
import type { DeletionExtent } from "./deletion.ts"
import { benchGrowth } from "./growth.ts"
import type { GrowthExtent } from "./growth.ts"
import { benchMemory } from "./memory.ts"
import type { MemoryExtent } from "./memory.ts"
import { benchPlans } from "./plans.ts"
import { growthChart, summarize, notificationChart } from "./report.ts"
import type { CommunitiesResults } from "./report.ts"
import { benchNotifications } from "./notification-fan-out.ts"
import type { NotificationExtent } from "./notification-fan-out.ts"
import { fullFixture, plant } from "./fixture.ts"
import type { FixtureSizes } from "./fixture.ts"

const usage = `npm run bench -- communities [--only growth,notifications,memory,deletion,plans] [--runs 3] [--sessions 200,2000,10000] [--quick] [--write] [--main FILE]

--only      some of the parts
--runs      how often each is measured; medians are shown
--sessions  how many sessions a change is told to, one after the other, up to 60,000; more than 28,000 take more than two workers
--quick     small, short and once: shows that all works, not what it costs
--write     keeps the results
--main      the server to run; left out, this checkout is built and run`

const maxSessions = 60_000
const parts = ["growth", "notifications", "memory", "deletion", "plans"] as const

interface Plan {
  readonly members: readonly number[]
  readonly fixture: Pick<FixtureSizes, "channels" | "roles" | "strangers">
  readonly growth: GrowthExtent
  readonly notifications: NotificationExtent
  readonly memory: MemoryExtent
  readonly deletion: DeletionExtent
}

function planOf(runs: number, isQuick: boolean, sessions: readonly number[]): Plan {
  return isQuick
    ? {
        members: [100, 1_000],
        fixture: { channels: 100, roles: 50, strangers: 16 },
        growth: { runs, listeners: 16, share: 0.1, idleSeconds: 1, settleSeconds: 0.1 },
        notifications: { runs, sessions: [100], tellings: 200, repeats: 2, settleSeconds: 0.5, idleSeconds: 1 },
        memory: { runs, restSeconds: 1, sessions: 50, askers: 200 },
        deletion: { runs, aroundSeconds: 0.3 },
      }
    : {
        members: [100, 1_000, 10_000, 100_000],
        fixture: { ...fullFixture, strangers: 256 },
        growth: { runs, listeners: 64, share: 1, idleSeconds: 5, settleSeconds: 0.4 },
        notifications: {
          runs,
          sessions,
          tellings: 20_000,
          repeats: 30,
          settleSeconds: 3,
          idleSeconds: 3,
        },
        // What is measured in every run is a difference within it, and each look waits.
        memory: { runs: 1, restSeconds: 10, sessions: 5_000, askers: 20_000 },
        deletion: { runs, aroundSeconds: 1 },
      }
}

export async function benchCommunities(
  args: string[],
  build: () => Promise<void>,
  say: (what: string) => void,
): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      only: { type: "string", default: parts.join(",") },
      sessions: { type: "string", default: "200,2000,10000" },
      ...measuringOptions,
    },
  })
  const { runs, isQuick, isKept, mainFile } = readMeasuring(values, usage)
  const only = readParts(parts, values.only, usage)
  const sessions = values.sessions
    .split(",")
    .map(count => readCount("sessions", count, 1, maxSessions, usage))
    .toSorted((a, b) => a - b)
  const plan = planOf(runs, isQuick, sessions)
  const results = await record(
    { sizes: { audience: 1, authors: 0, idlers: 0 }, extent: { runs }, isQuick, mainFile, build, say },
    async (harness, about) => {
      const results: CommunitiesResults = about
      const { databaseUrl } = harness
      say(`servers of up to ${plan.members.at(-1)!.toLocaleString("en")} members`)
      const wanted =
        Math.max(plan.growth.listeners, ...plan.notifications.sessions, plan.memory.sessions, plan.memory.askers) + 2
      const communities = plan.members.map(members => ({ members, people: Math.min(members, wanted) }))
      const fixture = await plant(databaseUrl, { ...plan.fixture, communities })
      if (only.has("plans")) results.plans = await benchPlans(databaseUrl, fixture, say)
      if (only.has("growth")) results.growth = await benchGrowth(harness, fixture, plan.growth, say)
      if (only.has("notifications"))
        results.notifications = await benchNotifications(harness, fixture.communities.at(-1)!, plan.notifications, say)
      if (only.has("memory")) results.memory = await benchMemory(harness, fixture, plan.memory, say)
      if (only.has("deletion")) results.deletion = await benchDeletion(harness, fixture, plan.deletion, say)
      return results
    },
  )
  const charts = {
    ...(results.growth && { growth: growthChart(results, results.growth) }),
    ...(results.notifications && { notifications: notificationChart(results, results.notifications) }),
  }
  const [smallest, ...larger] = plan.members.map(members => members.toLocaleString("en"))
  const sided = [`${smallest!} members`, `${larger.join(", ")} members`] as const
  await show(results, summarize(results), { isKept, suffix: "-communities", charts, sided })
}
