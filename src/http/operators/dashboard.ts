import type { routes } from "../../contract/operators/dashboard.ts"
import { limits } from "../../contract/operators/reviews.ts"
import { wireVersion } from "../../contract/service/system.ts"
import { statOf, windowOf } from "../../domain/service/telemetry.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http, Policy } from "../shared/http.ts"
import { totalOf } from "./reviews.ts"

/** Of the answering host and process; null: unavailable. */
export interface HostFigures {
  readonly system: () => Promise<{
    cpu_percent: number
    memory_percent: number
    memory_used_mb: number
    memory_total_mb: number
    disk_percent: number
    process_memory_mb: number
    thread_count: number
    uptime_seconds: number
  } | null>
}

type DashboardNeeds = Http<"feedback" | "operatorOverview" | "telemetry"> &
  Policy<{ readonly telemetry_enabled: boolean }> & { readonly figures: HostFigures }

const dayMs = 86_400_000
const endpoints = 20
/** Milliseconds that counts are kept: they take longer the more users there are. */
const countsMs = 10_000

export function operatorDashboard({ storage, policy, clock, figures }: DashboardNeeds): Handlers<typeof routes> {
  let counted: { readonly atMs: number; readonly counts: ReturnType<typeof count> } | undefined

  async function count() {
    const [tickets, users] = await Promise.all([
      storage.feedback.ticketCounts(limits.counted),
      storage.operatorOverview.userCounts(secondsAt(clock() - dayMs)),
    ])
    return { tickets: { ...tickets, total: totalOf(tickets) }, ...users }
  }

  function counts(): ReturnType<typeof count> {
    if (!counted || counted.atMs + countsMs <= clock()) counted = { atMs: clock(), counts: count() }
    return counted.counts
  }

  const stats = async () =>
    policy.telemetry_enabled
      ? (await storage.telemetry.stats(windowOf(24, secondsAt(clock())), {})).slice(0, endpoints).map(statOf)
      : []

  return {
    async getDashboard() {
      const nothing = {
        tickets: { open: 0, in_progress: 0, resolved: 0, closed: 0, total: 0 },
        active_users: 0,
        total_users: 0,
        scheduled_deletions: 0,
      }
      const [known, telemetry, system] = await Promise.all([
        counts().catch(() => {
          counted = undefined
          return undefined
        }),
        stats().catch(() => []),
        figures.system(),
      ])
      return {
        ...(known ?? nothing),
        telemetry,
        db_status: known ? "healthy" : "degraded",
        system,
        server_version: wireVersion,
      }
    },
  }
}
