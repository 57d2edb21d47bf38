/**
 * `npm run bench -- communities`: what a server costs as its members become many, and as its
 * sessions do.
 */
import type { Bench } from "../bench.ts"
import type { Harness } from "../harness.ts"
import type { About } from "../report.ts"
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

export const communities: Bench<(typeof parts)[number], CommunitiesResults> = {
  about: "what a server costs as it grows to 100,000 members",
  parts,
  options: {
    sessions:
      "how many sessions a change is told to, one after the other, up to 60,000: 200,2000,10000; more than 28,000 take more than two workers",
  },
  plan({ only, runs, isQuick, counts, say }) {
    const sessions = counts("sessions", "200,2000,10000", maxSessions).toSorted((a, b) => a - b)
    const plan = planOf(runs, isQuick, sessions)
    const [smallest, ...larger] = plan.members.map(members => members.toLocaleString("en"))
    return {
      sizes: { audience: 1, authors: 0, idlers: 0 },
      extent: { runs },
      measure: (harness, about) => measure(harness, about, plan, only, say),
      lines: summarize,
      charts: results => ({
        ...(results.growth && { growth: growthChart(results, results.growth) }),
        ...(results.notifications && { notifications: notificationChart(results, results.notifications) }),
      }),
      sided: [`${smallest!} members`, `${larger.join(", ")} members`],
    }
  },
}

async function measure(
  harness: Harness,
  about: About,
  plan: Plan,
  only: ReadonlySet<(typeof parts)[number]>,
  say: (what: string) => void,
): Promise<CommunitiesResults> {
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
}
