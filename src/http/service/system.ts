import { routes as everyRoute } from "../../contract/contract.ts"
import { fail } from "../../contract/core/errors.ts"
import { limits } from "../../contract/core/limits.ts"
import type { Route } from "../../contract/core/registry.ts"
import { type routes, wireVersion, type VersionParts } from "../../contract/service/system.ts"
import { signInProviders, type OidcPolicy } from "../../domain/accounts/oidc.ts"
import { defaultColours } from "../../domain/core/pictures.ts"
import { tiers } from "../../domain/accounts/tiers.ts"
import { compareVersions, parseVersion } from "../../domain/service/versions.ts"
import type { Handlers } from "../server/handlers.ts"
import { accessBlockedPage, securityLogoutPage } from "../../web/help-pages.ts"
import { createQrPictures } from "../../integrations/qr-codes.ts"
import type { Passkeys } from "../../integrations/passkeys.ts"
import type { Http, Policy, Uses } from "../shared/http.ts"
import type { getStatus } from "../../contract/service/system.ts"
import type { ReplyOf } from "../../contract/core/registry.ts"
import type { AccessTokens } from "../../domain/service/access-tokens.ts"
import type { OAuthPolicy } from "../../domain/accounts/oauth.ts"
import type { Health } from "../../observability/health.ts"
import { release } from "../../observability/release.ts"

/** What a client may ask of the service as a whole. */
export interface ServiceFacts {
  readonly health: Pick<Health, "ready">
  /** What `/status` says; `uptime_seconds` and `version` are added here. */
  readonly status: () => Omit<ReplyOf<typeof getStatus>, "version" | "uptime_seconds">
  /** What applications present, where an operator asks for that. */
  readonly accessTokens: () => AccessTokens
  /** Where a client that is too old gets a newer one. */
  readonly publicUrl: string
  /** Whether `/docs` is served. */
  readonly hasDocs: boolean
}

type SystemNeeds = Http &
  Policy<SystemPolicy> &
  Uses<{ readonly passkeys: Passkeys | undefined }> & { readonly service: ServiceFacts }

interface SystemPolicy extends OAuthPolicy, OidcPolicy {
  readonly password_login_enabled: boolean
  readonly passkey_login_enabled: boolean
  readonly server_name: string
  readonly min_client_version: string
  readonly search_enabled: boolean
  readonly voice_enabled: boolean
  readonly telemetry_enabled: boolean
}

/** What a client may draw where somebody has no picture, and what it may upload. */
const avatars = {
  default_colors: [...defaultColours],
  max_size: 512,
  max_file_size: 5_242_880,
  allowed_types: ["image/jpeg", "image/png", "image/gif", "image/webp"],
}

/** What is said back of a version that is none. */
const shown = (version: string): string => Array.from(version.slice(0, 400)).slice(0, 200).join("")

/** Whether the interface has anything under a path: what is not built yet is not promised. */
const isServed = (path: string): boolean =>
  Object.values<Route>(everyRoute).some(route => `${route.path}/`.includes(`/${path}/`))

export function system(http: SystemNeeds): Handlers<typeof routes> {
  const { service, policy, clock } = http
  const { health, status, publicUrl, hasDocs, accessTokens } = service
  const securityLogout = securityLogoutPage(policy.server_name)
  const accessBlocked = accessBlockedPage(policy.server_name)
  const qrPicture = createQrPictures()
  const docs = hasDocs ? "/docs" : null
  const startedAt = clock()
  const server = known(wireVersion)
  const oldest = known(policy.min_client_version)
  const providers = signInProviders(policy)
  const hasPasskeys = http.integrations.passkeys !== undefined

  return {
    getHealth: () => ({
      status: "healthy",
      version: wireVersion,
      release: release.version,
      commit: release.commit,
    }),
    getLive: () => ({ status: "alive" }),

    async getReady() {
      const { ok, checks } = await health.ready()
      // What exactly is wrong may name hosts: operators find it in the log.
      const verdicts = Object.fromEntries(
        Object.entries(checks).map(([name, verdict]) => [name, verdict === "ok" ? "ok" : "failing"]),
      )
      if (!ok) throw fail("unavailable", { retry_after: 1, extra: { reason: "not ready", checks: verdicts } })
      return { status: "ready", checks: verdicts }
    },

    getVersion: () => ({ version: server, min_supported_version: oldest, api_version: "v1" }),

    negotiateVersion({ body }) {
      const client = parseVersion(body.client_version)
      if (!client)
        throw fail("invalid_version_format", {
          extra: { code: "INVALID_VERSION_FORMAT", client_version: shown(body.client_version) },
        })
      if (compareVersions(client, oldest) < 0)
        throw fail("version_outdated", {
          extra: {
            code: "VERSION_OUTDATED",
            client_version: client.string,
            min_version: oldest.string,
            server_version: server.string,
            update_url: publicUrl,
          },
        })
      const isOlder = compareVersions(client, server) < 0
      return {
        compatible: true,
        server_version: server,
        client_version: client,
        min_supported_version: oldest,
        update_required: false,
        update_recommended: isOlder,
        message: isOlder ? `Version ${server.string} is available` : null,
        update_url: isOlder ? publicUrl : null,
      }
    },

    getRoot: () => ({
      name: `${policy.server_name} API`,
      version: wireVersion,
      docs,
      api: "/api/v1",
      api_docs: null,
    }),

    getApiRoot: () => ({ version: "v1", status: "online", message: `${policy.server_name} API` }),

    getCapabilities: () => ({
      avatars,
      access_token_required: !accessTokens().isEmpty,
      limits: {
        message_length: limits.messageCharacters,
        attachments_per_message: limits.attachmentsPerMessage,
        embeds_per_message: limits.embedsPerMessage,
        reactions_per_message: limits.reactionsPerMessage,
        file_size_mb: Object.fromEntries([...tiers].map(([name, { max_file_size_mb }]) => [name, max_file_size_mb])),
      },
      features: {
        polls: isServed("polls"),
        search: policy.search_enabled,
        voice: policy.voice_enabled,
        stickers: isServed("stickers"),
        feedback: isServed("feedback"),
        telemetry: policy.telemetry_enabled,
        oauth_providers: providers.map(({ id }) => id),
        sign_in: {
          password: policy.password_login_enabled,
          passkeys: hasPasskeys,
          passkey_alone: hasPasskeys && policy.passkey_login_enabled,
          providers,
        },
      },
    }),

    getSecurityLogoutHelp: () => securityLogout,
    getAccessBlockedHelp: () => accessBlocked,
    getQrCode: ({ query: { data, size, format } }) => qrPicture(data, { size, format }),

    getStatus: () => ({ ...status(), version: server, uptime_seconds: Math.floor((clock() - startedAt) / 1000) }),
  }
}

function known(text: string): VersionParts {
  const version = parseVersion(text)
  if (!version) throw new Error(`Not a version: ${text}`)
  return version
}
