import { fail } from "../../contract/core/errors.ts"
import type { routes } from "../../contract/operators/telemetry.ts"
import { exportName, exportText, exportTypes, isExportFormat } from "../../domain/service/telemetry-export.ts"
import { spans, statOf, windowOf, type EndpointStat } from "../../domain/service/telemetry.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http, Policy } from "../shared/http.ts"

type Needs = Http<"telemetry"> & Policy<{ readonly telemetry_enabled: boolean }>

/** What a query may say for every source. */
const everySource = "all"

export function operatorTelemetry({ storage, policy, clock }: Needs): Handlers<typeof routes> {
  const isEnabled = policy.telemetry_enabled

  async function statsOf(
    hours: number,
    filter: { endpoint?: string | undefined; source?: string | undefined } = {},
  ): Promise<EndpointStat[]> {
    if (!isEnabled) return []
    return (await storage.telemetry.stats(windowOf(hours, secondsAt(clock())), filter)).map(statOf)
  }

  return {
    async getTelemetryStats({ query: { hours, endpoint, source = everySource } }) {
      return { stats: await statsOf(hours, { endpoint, source: source === everySource ? undefined : source }), source }
    },

    async getTelemetryHistory({ query: { endpoint, method, hours, bucket_minutes } }) {
      if (!isEnabled) return { history: [] }
      const { from } = windowOf(hours, secondsAt(clock()))
      const width = Math.ceil((bucket_minutes * 60) / spans[0]) * spans[0]
      const rows = await storage.telemetry.history({ endpoint, method }, { from, width })
      return {
        history: rows.map(({ timestamp, count, errors, sum_us }) => ({
          timestamp,
          avg_ms: Number((sum_us / count / 1000).toFixed(2)),
          count,
          error_count: errors,
        })),
      }
    },

    async resetTelemetry({ trail }) {
      if (!isEnabled) return { success: false, deleted_count: 0 }
      const deleted_count = await storage.telemetry.reset()
      trail.result = { deleted_count }
      return { success: true, deleted_count }
    },

    async exportTelemetry({ query: { format, hours } }) {
      if (!isExportFormat(format)) throw fail("unsupported_format", { message: `Unsupported format: ${format}` })
      if (!isEnabled) throw fail("telemetry_disabled")
      const nowMs = clock()
      const text = exportText(format, { stats: await statsOf(hours), hours, nowMs })
      return {
        contentType: exportTypes[format],
        body: new TextEncoder().encode(text),
        headers: { "Content-Disposition": `attachment; filename=${exportName(format, nowMs)}` },
      }
    },
  }
}
