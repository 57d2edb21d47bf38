import type { ServiceFacts, ServiceNotice } from "../domain/server-status.ts"
import { openRequests } from "./operator-requests.ts"
import type { Sql } from "./database.ts"

/** The one row that says what is so for the service as a whole. */
export const serverStatusStorage = (sql: Sql) => ({
  /** `isAsked`: an operator's request waits for somebody. */
  async look(): Promise<ServiceFacts & { isAsked: boolean }> {
    const [row] = await sql<(ServiceFacts & { isAsked: boolean })[]>`
      SELECT state, message, estimated_downtime_seconds, restart_at, changes, resets, reset_until::text AS reset_until,
             blocks_version, EXISTS (SELECT 1 FROM operator_requests WHERE ${openRequests(sql)}) AS "isAsked"
      FROM service`
    return row!
  },

  /** The first key is the one that counts. @returns whether it is this one */
  async claimSecretKey(id: string): Promise<boolean> {
    const [row] = await sql<{ secret_key_id: string }[]>`
      UPDATE service SET secret_key_id = coalesce(secret_key_id, ${id}) RETURNING secret_key_id`
    return row!.secret_key_id === id
  },

  async setState(notice: ServiceNotice): Promise<void> {
    await sql`
      UPDATE service SET state = ${notice.state}, message = ${notice.message},
        estimated_downtime_seconds = ${notice.estimated_downtime_seconds}, restart_at = ${notice.restart_at},
        changed_at = extract(epoch FROM now())::bigint, changes = changes + 1`
  },
})
