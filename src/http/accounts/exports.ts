import { userActor } from "../../actors/user.ts"
import { fail } from "../../contract/core/errors.ts"
import type { Export, routes } from "../../contract/accounts/exports.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { secondsAt } from "../../std/clock.ts"
import type { ExportState } from "../../domain/accounts/exports.ts"
import { leftOutOfExports } from "../../storage/personal-data.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http, Policy } from "../shared/http.ts"

/**
 * Exports have no names: users see their latest one that is ready, otherwise the one that is being
 * made.
 */
export function exports({
  ask,
  storage,
  policy,
  clock,
}: Http<"exports"> & Policy<{ readonly export_interval_hours: number }>): Handlers<typeof routes> {
  async function latestOf(user: Snowflake): Promise<{ found: ExportState; isPending: boolean }> {
    const { latest, ready } = await storage.exports.latestTwo(user, secondsAt(clock()))
    const pending = latest?.ready_at === null ? latest : undefined
    const found = ready ?? pending
    if (!found) throw fail("export_not_found")
    return { found, isPending: pending !== undefined }
  }

  async function shown(
    { id, requested_at, attempt, ready_at, expires_at }: ExportState,
    isPending: boolean,
  ): Promise<Export> {
    const tables = ready_at === null ? [] : await storage.exports.tables(id, attempt)
    return {
      id,
      status: ready_at === null ? "pending" : "ready",
      is_another_pending: isPending && ready_at !== null,
      requested_at,
      ready_at,
      expires_at,
      parts: tables.at(-1)?.last_part ?? 0,
      tables,
      left_out: [...leftOutOfExports],
    }
  }

  return {
    async requestExport({ caller }) {
      const intervalSeconds = policy.export_interval_hours * 3600
      return shown(await ask(userActor, caller.user_id, { type: "requestExport", intervalSeconds }), true)
    },

    async getExport({ caller }) {
      const { found, isPending } = await latestOf(caller.user_id)
      return shown(found, isPending)
    },

    async getExportPart({ query: { part: number }, caller }) {
      const { id, attempt, ready_at } = (await latestOf(caller.user_id)).found
      if (ready_at === null) throw fail("export_not_ready")
      const part = await storage.exports.part(id, attempt, number)
      if (!part) throw fail("export_part_not_found")
      const { name, rows, parts } = part
      return { export_id: id, part: number, parts, name, rows: JSON.parse(rows) as Record<string, unknown>[] }
    },
  }
}
