import { z } from "zod"
import { omittable, Seconds } from "../core/fields.ts"
import { Content, defineRoute } from "../core/registry.ts"
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
  summary: "Whether the process responds",
  tag: "Health",
  auth: "public",
  isGated: false,
  limit: "none",
  reply: z
    .object({
      status: z.literal("healthy"),
      version: z.string().describe("Of this interface, see `/version`"),
      release: z.string().describe("The version of the server"),
      commit: z.string().describe("The commit that it was built from; `unknown` where the build did not know"),
    })
    .meta({ id: "HealthResponse" }),
  fails: [],
})

export const getLive = defineRoute({
  method: "GET",
  path: "/livez",
  mount: "root",
  summary: "Liveness check. Restart the process if it fails",
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
  summary:
    "Readiness check: PostgreSQL and Redis respond, every shard has had an owner since the worker started, and what it does is committed and published. Otherwise 503. `files` says whether files can be read and written, which decides nothing",
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
  summary: "Get the server version and the oldest supported client version",
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
  summary: "Check whether a client version is supported",
  tag: "Version",
  auth: "public",
  isGated: false,
  body: z
    .object({
      client_version: z
        .string()
        .describe(
          "The client's version. The gateway takes it as `properties.client_version`; there is no header for it",
        ),
      supported_versions: z.unknown().optional().describe("Ignored"),
    })
    .meta({ id: "VersionNegotiateRequest" }),
  example: { client_version: "a.1.0-49" },
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
  summary: "Get the state of the service and announced maintenance",
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
  summary: "Get the name of the service and links to its documentation",
  tag: "General",
  auth: "public",
  limit: "none",
  isGated: false,
  reply: z
    .object({
      name: z.string(),
      version: z.string(),
      docs: z.string().nullable().describe("Null if the documentation pages are disabled"),
      api: z.literal("/api/v1"),
      api_docs: z.string().nullable(),
    })
    .meta({ id: "RootResponse" }),
  fails: [],
})

export const getApiRoot = defineRoute({
  method: "GET",
  path: "/",
  summary: "Whether the REST interface responds",
  tag: "General",
  auth: "public",
  reply: z
    .object({ version: z.literal("v1"), status: z.literal("online"), message: z.string() })
    .meta({ id: "ApiRootResponse" }),
  fails: [],
})

const PerTier = z.record(z.string(), z.int()).describe("By tier name")

export const getCapabilities = defineRoute({
  method: "GET",
  path: "/capabilities",
  summary: "Get the features and limits of this server",
  tag: "System",
  auth: "public",
  isGated: false,
  reply: z
    .object({
      avatars: z.object({
        default_colors: z.array(z.string()),
        max_size: z.int().describe("Width and height in pixels"),
        max_file_size: z.int().describe("Bytes"),
        allowed_types: z.array(z.string()),
      }),
      access_token_required: z.boolean().describe("Whether protected routes require the header `X-API-Access-Token`"),
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
        oauth_providers: z.array(z.string()).describe("The configured providers"),
        sign_in: z
          .object({
            password: z.boolean().describe("Whether a name and a password sign in, and make an account"),
            passkeys: z.boolean().describe("Whether users can have passkeys"),
            passkey_alone: z.boolean().describe("Whether a passkey alone signs in"),
            providers: z.array(z.object({ id: z.string(), name: z.string().describe("For a button") })),
          })
          .describe("The ways to sign in"),
      }),
    })
    .meta({ id: "CapabilitiesResponse" }),
  fails: [],
})

const page = ["text/html; charset=utf-8"]

export const getSecurityLogoutHelp = defineRoute({
  method: "GET",
  path: "/help/security-logout",
  summary: "A web page that explains why users were signed out",
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
  summary: "A web page that explains why access may be blocked, and what to do about it",
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
  summary: "Generate a QR code of a text",
  tag: "Utilities",
  auth: "public",
  isGated: false,
  query: z.object({
    data: z.string().describe("The text"),
    size: omittable(z.string()).describe("`WxH` in pixels, each from 10 to 1000. An invalid size counts as 200x200"),
    format: omittable(z.string()).describe("`png` is the default. Any other value means JPEG"),
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
