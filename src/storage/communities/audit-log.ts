import type { AuditTarget } from "../../contract/communities/audit-log.ts"
import type { AuditAction, AuditEntry } from "../../contract/contract.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Changes } from "../../domain/communities/audit.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { publicUser, type UserRow } from "../accounts/users.ts"
import { column, defineWrite } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    audit_log: {
      userColumns: ["user_id"],
      key: { server_id: "bigint", id: "bigint" },
      given: [
        "server_id",
        "id",
        "user_id",
        "action",
        "target_type",
        "target_id",
        "target_name",
        "changes",
        "reason",
        "created_at",
      ],
      othersRows: { target_id: "What others did to this person is part of what they did" },
      atPurge: "kept",
    },
  },
}

export interface AuditRow {
  server_id: Snowflake
  id: Snowflake
  user_id: Snowflake
  action: AuditAction
  target_type: AuditTarget
  target_id: string | null
  target_name: string | null
  changes: Changes
  reason: string
  created_at: number
}

export const insertAuditEntry = defineWrite<AuditRow>(
  "insertAuditEntry",
  (sql, rows) => sql`
    INSERT INTO audit_log (server_id, id, user_id, action, target_type, target_id, target_name, changes, reason, created_at)
    SELECT t.server_id, t.id, t.user_id, t.action, t.target_type, t.target_id, t.target_name, t.changes::jsonb, t.reason, t.created_at
    FROM unnest(${column(rows, "server_id")}::bigint[], ${column(rows, "id")}::bigint[], ${column(rows, "user_id")}::bigint[],
      ${column(rows, "action")}::text[], ${column(rows, "target_type")}::text[], ${column(rows, "target_id")}::text[], ${column(rows, "target_name")}::text[],
      ${rows.map(row => JSON.stringify(row.changes))}::text[], ${column(rows, "reason")}::text[], ${column(rows, "created_at")}::bigint[])
      AS t (server_id, id, user_id, action, target_type, target_id, target_name, changes, reason, created_at)`,
)

export interface AuditPage {
  limit: number
  before?: Snowflake | undefined
  user_id?: Snowflake | undefined
  action?: AuditAction | undefined
}

type Doer = Pick<UserRow, "bot" | "badges"> & { user_created_at: number }
type Named = (Doer & { username: string }) | ({ username: null } & { [K in keyof Doer]: null })

export const auditLogStorage = (sql: Sql) => ({
  /**
   * With the channel of a webhook that is there. Newest first, with the names of now: of who did it, and of
   * a member to whom it was done.
   */
  async page(
    server: Snowflake,
    { limit, before, user_id, action }: AuditPage,
  ): Promise<(AuditEntry & { webhook_channel_id: Snowflake | null })[]> {
    const rows = await sql<(Omit<AuditEntry, "user"> & Named & { webhook_channel_id: Snowflake | null })[]>`
      SELECT a.id, a.server_id, a.user_id::text AS user_id, a.action, a.target_type, a.target_id, coalesce(a.target_name, t.username) AS target_name, a.changes, a.reason,
        a.created_at, w.channel_id AS webhook_channel_id, u.username, u.bot, u.badges, u.created_at AS user_created_at
      FROM audit_log a LEFT JOIN users u ON u.id = a.user_id
        LEFT JOIN users t ON t.id = CASE WHEN a.target_type = 'member' THEN a.target_id::bigint END
        LEFT JOIN webhooks w ON w.id = CASE WHEN a.target_type = 'webhook' THEN a.target_id::bigint END
      WHERE a.server_id = ${server} AND a.id < ${before ?? "9223372036854775807"}
        ${user_id === undefined ? sql`` : sql`AND a.user_id = ${user_id}`}
        ${action === undefined ? sql`` : sql`AND a.action = ${action}`}
      ORDER BY a.id DESC LIMIT ${limit}`
    return rows.map(({ username, bot, badges, user_created_at, ...entry }) => ({
      ...entry,
      user:
        username === null
          ? null
          : publicUser({ id: entry.user_id, username, bot, badges, created_at: user_created_at }),
    }))
  },
})
