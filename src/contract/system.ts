import { z } from "zod"
import { Seconds } from "./fields.ts"
import { defineRoute } from "./registry.ts"
import { ServiceState } from "./server-status.ts"

/** The wire version of this interface; the package has its own. */
export const wireVersion = "a.1.0-49"

export const VersionParts = z
  .object({ stage: z.enum(["a", "b", "c", "r"]), major: z.int(), minor: z.int(), build: z.int(), string: z.string() })
  .meta({ id: "VersionInfo" })
export type VersionParts = z.infer<typeof VersionParts>

export const getHealth = defineRoute({
  method: "GET",
  path: "/health",
  mount: "both",
  summary: "The process answers",
  tag: "Health",
  auth: "public",
  limit: "none",
  reply: z.object({ status: z.literal("healthy"), version: z.string() }).meta({ id: "HealthResponse" }),
  fails: [],
})

export const getLive = defineRoute({
  method: "GET",
  path: "/livez",
  mount: "root",
  summary: "The process is alive; restart it if this fails",
  tag: "Health",
  auth: "public",
  limit: "none",
  reply: z.object({ status: z.literal("alive") }),
  fails: [],
})

export const getReady = defineRoute({
  method: "GET",
  path: "/readyz",
  mount: "root",
  summary: "The worker can serve: PostgreSQL and Redis answer and its shards are held. 503 otherwise",
  tag: "Health",
  auth: "public",
  limit: "none",
  reply: z.object({ status: z.literal("ready"), checks: z.record(z.string(), z.string()) }),
  fails: ["unavailable"],
})

export const getVersion = defineRoute({
  method: "GET",
  path: "/version",
  summary: "Server version and the oldest client version it serves",
  tag: "Version",
  auth: "public",
  reply: z
    .object({ version: VersionParts, min_supported_version: VersionParts.nullable(), api_version: z.literal("v1") })
    .meta({ id: "VersionResponse" }),
  fails: [],
})

export const negotiateVersion = defineRoute({
  method: "POST",
  path: "/version/negotiate",
  summary: "Whether a client of this version can go on",
  tag: "Version",
  auth: "public",
  body: z
    .object({ client_version: z.string().max(200), supported_versions: z.array(z.string()).nullish() })
    .meta({ id: "VersionNegotiateRequest" }),
  reply: z
    .object({
      compatible: z.boolean(),
      server_version: VersionParts,
      client_version: VersionParts,
      min_supported_version: VersionParts.nullable(),
      update_required: z.boolean(),
      update_recommended: z.boolean(),
      message: z.string().nullable(),
      update_url: z.string().nullable(),
    })
    .meta({ id: "VersionNegotiateResponse" }),
  fails: ["invalid_version_format", "version_outdated"],
})

export const getStatus = defineRoute({
  method: "GET",
  path: "/status",
  summary: "State of the service and announced maintenance",
  tag: "System",
  auth: "public",
  limit: "none",
  reply: z
    .object({
      state: ServiceState,
      version: VersionParts,
      uptime_seconds: z.int().nullable(),
      maintenance_message: z.string().nullable(),
      estimated_downtime_seconds: z.int().nullable(),
      restart_at: Seconds.nullable(),
    })
    .meta({ id: "StatusResponse" }),
  fails: [],
})

export const routes = { getHealth, getLive, getReady, getVersion, negotiateVersion, getStatus }
