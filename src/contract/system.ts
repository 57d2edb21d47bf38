import { z } from "zod"
import { omittable, Seconds } from "./fields.ts"
import { Content, defineRoute } from "./registry.ts"
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
  isGated: false,
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
  isGated: false,
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
  isGated: false,
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
  isGated: false,
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
  isGated: false,
  body: z
    .object({
      client_version: z
        .string()
        .describe("No header carries it: it is said here, and to the gateway as `properties.client_version`"),
      supported_versions: z.unknown().optional().describe("Counts for nothing, whatever it is"),
    })
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
  isGated: false,
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

export const getRoot = defineRoute({
  method: "GET",
  path: "/",
  mount: "root",
  summary: "What this is, and where to read about it",
  tag: "General",
  auth: "public",
  limit: "none",
  isGated: false,
  reply: z
    .object({
      name: z.string(),
      version: z.string(),
      docs: z.string().nullable().describe("Null where the documentation pages are switched off"),
      api: z.literal("/api/v1"),
      api_docs: z.string().nullable(),
    })
    .meta({ id: "RootResponse" }),
  fails: [],
})

export const getApiRoot = defineRoute({
  method: "GET",
  path: "/",
  summary: "The interface answers",
  tag: "General",
  auth: "public",
  reply: z
    .object({ version: z.literal("v1"), status: z.literal("online"), message: z.string() })
    .meta({ id: "ApiRootResponse" }),
  fails: [],
})

const PerTier = z.record(z.string(), z.int()).describe("By name of the tier")

export const getCapabilities = defineRoute({
  method: "GET",
  path: "/capabilities",
  summary: "What this server can do, and how much of it",
  tag: "System",
  auth: "public",
  isGated: false,
  reply: z
    .object({
      avatars: z.object({
        default_colors: z.array(z.string()),
        max_size: z.int().describe("Pixels per side"),
        max_file_size: z.int().describe("Bytes"),
        allowed_types: z.array(z.string()),
      }),
      access_token_required: z.boolean().describe("Gated routes need the header `X-API-Access-Token`"),
      limits: z.object({
        message_length: z.int(),
        attachments_per_message: z.int(),
        embeds_per_message: z.int(),
        reactions_per_message: z.int(),
        file_size_mb: PerTier,
      }),
      features: z.object({
        polls: z.boolean(),
        search: z.boolean(),
        voice: z.boolean(),
        stickers: z.boolean(),
        feedback: z.boolean(),
        telemetry: z.boolean(),
        oauth_providers: z.array(z.string()).describe("Those that this server is set up for"),
      }),
    })
    .meta({ id: "CapabilitiesResponse" }),
  fails: [],
})

const page = ["text/html; charset=utf-8"]

export const getSecurityLogoutHelp = defineRoute({
  method: "GET",
  path: "/help/security-logout",
  summary: "A page for people: why everybody, or somebody, was signed out",
  tag: "Help",
  auth: "public",
  isGated: false,
  produces: page,
  reply: Content,
  fails: [],
})

export const getAccessBlockedHelp = defineRoute({
  method: "GET",
  path: "/help/access-blocked",
  summary: "A page for people: why access may be blocked, and what to do about it",
  tag: "Help",
  auth: "public",
  isGated: false,
  produces: page,
  reply: Content,
  fails: [],
})

export const getQrCode = defineRoute({
  method: "GET",
  path: "/qr",
  summary: "A QR code that holds a text",
  tag: "Utilities",
  auth: "public",
  isGated: false,
  query: z.object({
    data: z.string().describe("What it says"),
    size: omittable(z.string()).describe("`WxH` in pixels, each from 10 to 1000; what is no size means 200x200"),
    format: omittable(z.string()).describe("`png`, the default; anything else means JPEG"),
  }),
  produces: ["image/png", "image/jpeg"],
  isForAnyOrigin: true,
  reply: Content,
  fails: ["qr_data_required", "qr_data_too_long"],
})

export const routes = {
  getHealth,
  getLive,
  getReady,
  getVersion,
  negotiateVersion,
  getStatus,
  getRoot,
  getApiRoot,
  getCapabilities,
  getSecurityLogoutHelp,
  getAccessBlockedHelp,
  getQrCode,
}
