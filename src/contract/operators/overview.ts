import { z } from "zod"
import { omittable, Seconds, SecondsInput, text } from "../core/fields.ts"
import { defineRoute } from "../core/registry.ts"
import { ServiceState } from "../service/server-status.ts"
import { clampedInt } from "./fields.ts"

const area = { mount: "operators", auth: "operator", tag: "Operators" } as const
const count = z.int().nonnegative()

/** What an operator has said of the service. */
const ServerState = z
  .object({
    state: ServiceState,
    message: z.string().nullable(),
    estimated_downtime_seconds: count.nullable(),
    restart_at: Seconds.nullable(),
  })
  .meta({ id: "ServerStateResponse" })

export const getServerState = defineRoute({
  ...area,
  method: "GET",
  path: "/admin/server-state",
  summary: "Get the state of the service as an operator has set it",
  reply: ServerState,
  fails: [],
})

export const putServerState = defineRoute({
  ...area,
  method: "PUT",
  path: "/admin/server-state",
  summary:
    "Set the state of the service. `maintenance` and `shutting_down` close every gateway connection after 2 seconds; in `maintenance` the REST API answers 503",
  body: z
    .object({
      state: ServiceState,
      message: omittable(text(0, 500)),
      estimated_downtime_seconds: omittable(z.int().min(0).max(31_536_000)),
      restart_at: omittable(SecondsInput),
    })
    .meta({ id: "ServerStateRequest" }),
  trail: { target: "state", keeps: ["state", "message", "estimated_downtime_seconds", "restart_at"] },
  example: { state: "maintenance", message: "Back in ten minutes", estimated_downtime_seconds: 600 },
  reply: ServerState,
  fails: [],
})

export const getPoolHealth = defineRoute({
  ...area,
  method: "GET",
  path: "/admin/database/pool-health",
  summary: "Get how busy PostgreSQL and this worker's connections to it are",
  reply: z
    .object({
      active_connections: count.describe("Of all processes together, those on which a statement runs"),
      idle_connections: count,
      total_connections: count,
      max_connections: count.describe("What PostgreSQL allows"),
      min_connections: count.describe("Always 0: connections are opened when they are needed"),
      utilization_percent: z.number(),
      avg_acquisition_time: z.number().describe("Seconds that a statement of this worker waited for a connection"),
      max_acquisition_time: z.number(),
      avg_pool_wait_time: z.number().describe("The same, of those statements only that had to wait"),
      total_acquisitions: count,
      total_pool_waits: count,
      old_connections: z
        .array(z.object({ connection_id: z.string(), age_seconds: count, thread_id: z.string() }))
        .describe("Open for more than a day, at most 100, the oldest first"),
      status: z.enum(["healthy", "warning", "critical"]).describe("`warning` from 75 percent, `critical` from 90"),
      database_type: z.string(),
      timestamp: Seconds,
    })
    .meta({ id: "PoolHealthResponse" }),
  failsWithoutDatabase: "database_not_available",
  fails: ["database_not_available"],
})

const orUnknown = z.number().nullable()

const FigureSample = z
  .object({
    at: Seconds.describe("The end of its 10 seconds"),
    processes: count,
    sessions: count.describe("Connected to the gateway"),
    requests: count,
    messages: count,
    deliveries: count.describe("Events written to sockets"),
    errors: count.describe("Requests answered with a status of 500 or more"),
    lag_p50_ms: orUnknown.describe("From the append to a delivery log until the event is written to sockets"),
    lag_p99_ms: orUnknown,
    postgres_ms: orUnknown.describe("The slowest round trip that a worker measured"),
    redis_ms: orUnknown,
    disk_percent: orUnknown.describe("Of the fullest host"),
    oldest_job_seconds: orUnknown.describe("How long the oldest job waits. Null: none does"),
  })
  .meta({ id: "FigureSample" })

export const getNow = defineRoute({
  ...area,
  method: "GET",
  path: "/admin/now",
  summary: "Get what the whole service has done in the last hour, and how it is",
  query: z.object({
    since: omittable(clampedInt(0, 99_999_999_999)).describe("Only samples that are newer, in Unix seconds"),
  }),
  reply: z
    .object({
      at: Seconds,
      every_seconds: z.literal(10),
      samples: z.array(FigureSample).describe("Of the last hour, the oldest first"),
      processes: z
        .array(
          z.object({
            id: z.string(),
            host: z.string(),
            role: z.enum(["web", "job"]),
            uptime_seconds: count,
            memory_mb: z.number(),
            cpu_percent: z.number().describe("Of one core"),
            loop_p99_ms: z.number().describe("Delay of its event loop"),
            sessions: count,
            seen_at: Seconds,
          }),
        )
        .describe("Those that were there in the last minute"),
      postgres: z.object({
        ok: z.boolean(),
        latency_ms: orUnknown,
        connections: orUnknown,
        max_connections: orUnknown,
        size_bytes: orUnknown,
      }),
      redis: z.object({ ok: z.boolean(), latency_ms: orUnknown, memory_bytes: orUnknown, max_memory_bytes: orUnknown }),
      disk: z.object({ free_bytes: orUnknown, total_bytes: orUnknown, percent: orUnknown }).describe("Of this host"),
      jobs: z.object({ waiting: orUnknown, active: orUnknown, failed: orUnknown, oldest_seconds: orUnknown }),
    })
    .meta({ id: "NowResponse" }),
  fails: [],
})

export const routes = { getServerState, putServerState, getPoolHealth, getNow }
