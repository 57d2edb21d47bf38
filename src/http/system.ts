import { fail } from "../contract/errors.ts"
import { type routes, wireVersion, type VersionParts } from "../contract/system.ts"
import { compareVersions, parseVersion } from "../domain/versions.ts"
import type { Handlers, Http } from "./handlers.ts"

export function system({ health, status, policy, publicUrl, clock }: Http): Handlers<typeof routes> {
  const startedAt = clock()
  const server = known(wireVersion)
  const oldest = known(policy.min_client_version)

  return {
    getHealth: () => ({ status: "healthy", version: wireVersion }),
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
          extra: { code: "INVALID_VERSION_FORMAT", client_version: body.client_version },
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

    getStatus: () => ({ ...status(), version: server, uptime_seconds: Math.floor((clock() - startedAt) / 1000) }),
  }
}

function known(text: string): VersionParts {
  const version = parseVersion(text)
  if (!version) throw new Error(`Not a version: ${text}`)
  return version
}
