import { z } from "zod"
import { defineRoute } from "../core/registry.ts"
import { EndpointStat } from "./telemetry.ts"

const count = z.int().nonnegative()

export const getDashboard = defineRoute({
  method: "GET",
  path: "/admin/dashboard",
  mount: "operators",
  auth: "operator",
  tag: "Operators",
  summary: "Get the service at a glance",
  reply: z
    .object({
      tickets: z.object({ open: count, in_progress: count, resolved: count, closed: count, total: count }),
      telemetry: z.array(EndpointStat).describe("Up to 20 endpoints with most requests in the last 24 hours"),
      active_users: count.describe("Who have signed in within 24 hours"),
      total_users: count.describe("Of more than 500,000 it is an estimate"),
      scheduled_deletions: count,
      db_status: z.enum(["healthy", "degraded"]).describe("`degraded`: the counts could not be read, and are 0"),
      system: z
        .object({
          cpu_percent: z.number(),
          memory_percent: z.number(),
          memory_used_mb: z.number(),
          memory_total_mb: z.number(),
          disk_percent: z.number(),
          process_memory_mb: z.number(),
          thread_count: count,
          uptime_seconds: z.number(),
        })
        .nullable()
        .describe("Of the answering host and process. Null: unavailable"),
      server_version: z.string(),
    })
    .meta({ id: "DashboardResponse" }),
  fails: [],
})

export const routes = { getDashboard }
