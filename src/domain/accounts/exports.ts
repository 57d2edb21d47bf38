import type { Snowflake } from "../../contract/core/fields.ts"

/** An export of everything that is held about a user. Times are Unix seconds. */
export interface ExportState {
  readonly id: Snowflake
  readonly requested_at: number
  /** How often it was begun. */
  readonly attempt: number
  readonly ready_at: number | null
  readonly expires_at: number | null
}

/** How long it can be fetched. */
export const exportKeptSeconds = 7 * 86_400

/** Why there is no new one now: one at a time, and so many seconds between two. */
export function exportRefusal(
  latest: ExportState | null | undefined,
  now: number,
  intervalSeconds: number,
):
  | { readonly code: "export_pending" }
  | { readonly code: "export_too_soon"; readonly retry_after: number }
  | undefined {
  if (!latest) return undefined
  if (latest.ready_at === null) return { code: "export_pending" }
  const wait = latest.requested_at + intervalSeconds - now
  return wait > 0 ? { code: "export_too_soon", retry_after: wait } : undefined
}
