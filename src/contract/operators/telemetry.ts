import { z } from "zod"
import { omittable, Seconds } from "../core/fields.ts"
import { Content, defineRoute } from "../core/registry.ts"
import { clampedInt } from "./fields.ts"

const Hours = clampedInt(1, 720)
  .default(24)
  .describe("How far back, in hours from 1 to 720. A number beyond counts as the nearest")

export const EndpointStat = z
  .object({
    endpoint: z.string().describe("The path of a route with the names of its parameters, `pages`, or `other`"),
    method: z.string(),
    count: z.int(),
    avg_ms: z.number(),
    min_ms: z.number(),
    max_ms: z.number(),
    p50_ms: z.number().describe("Percentiles come from histograms: they are at most 1/32 off"),
    p95_ms: z.number(),
    p99_ms: z.number(),
    error_rate: z.number().describe("Percent"),
    error_count: z
      .int()
      .describe("Answers with a status of 400 or more, and requests without an answer that clients told of"),
    avg_queries: z.number().describe("Of a database, as clients said; the server says nothing of that"),
    avg_query_time_ms: z.number(),
  })
  .meta({ id: "EndpointStat" })

const about = { tag: "Operators", mount: "operators", auth: "operator" } as const

export const getTelemetryStats = defineRoute({
  ...about,
  method: "GET",
  path: "/admin/telemetry/stats",
  summary: "How long requests took, by endpoint, those with most requests first",
  query: z.object({
    hours: Hours,
    endpoint: omittable(z.string().max(255)).describe("Only endpoints with this in their name, in any case"),
    source: omittable(z.string().max(50)).describe(
      "`server`: only what the server measured itself; `client`: only what clients measured. Default: `all`",
    ),
  }),
  reply: z.object({ stats: z.array(EndpointStat), source: z.string() }).meta({ id: "TelemetryStats" }),
  fails: [],
})

export const getTelemetryHistory = defineRoute({
  ...about,
  method: "GET",
  path: "/admin/telemetry/history",
  summary: "How long requests of one endpoint took over time, the oldest first; times without any are left out",
  query: z.object({
    endpoint: z.string().min(1).max(255).describe("As the statistics name it"),
    method: z.string().min(1).max(10).default("GET"),
    hours: Hours,
    bucket_minutes: clampedInt(1, 1_440)
      .default(5)
      .describe("Minutes that are taken together, from 1 to 1440, rounded up to a multiple of 5"),
  }),
  reply: z
    .object({
      history: z.array(z.object({ timestamp: Seconds, avg_ms: z.number(), count: z.int(), error_count: z.int() })),
    })
    .meta({ id: "TelemetryHistory" }),
  fails: [],
})

export const resetTelemetry = defineRoute({
  ...about,
  method: "POST",
  path: "/admin/telemetry/reset",
  summary: "Forget how long requests took. Each worker keeps what it has measured in the last seconds",
  reply: z
    .object({ success: z.boolean(), deleted_count: z.int().describe("How many timings are forgotten") })
    .meta({ id: "TelemetryReset" }),
  fails: [],
})

export const exportTelemetry = defineRoute({
  ...about,
  method: "GET",
  path: "/admin/telemetry/export",
  summary: "The statistics as a file. No cell of a table is taken for a formula",
  query: z.object({
    format: z.string().max(50).default("json").describe("`json`, `csv` or `txt`"),
    hours: Hours,
  }),
  produces: ["application/json", "text/csv", "text/plain"],
  isSecret: true,
  trail: { keeps: ["format", "hours"] },
  reply: Content,
  fails: ["unsupported_format", "telemetry_disabled"],
})

export const routes = { getTelemetryStats, getTelemetryHistory, resetTelemetry, exportTelemetry }
