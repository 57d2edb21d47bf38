import type { Snowflake } from "../../contract/core/fields.ts"
import type { BanState } from "../../domain/communities/servers.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    bans: {
      userColumns: ["user_id"],
      key: { server_id: "bigint", user_id: "bigint" },
      given: ["server_id", "user_id", "reason", "banned_by", "banned_at"],
      atPurge: "ended",
    },
    bans_given: {
      table: "bans",
      userColumns: ["banned_by"],
      key: { server_id: "bigint", user_id: "bigint" },
      given: ["server_id", "user_id", "reason", "banned_by", "banned_at"],
      atPurge: "kept",
    },
  },
}

export const putBan = defineWrite<BanState & { server_id: Snowflake }>("putBan", (sql, rows) => {
  const last = lastOf(rows, row => `${row.server_id}:${row.user_id}`)
  return sql`
    INSERT INTO bans (server_id, user_id, reason, banned_by, banned_at)
    SELECT * FROM unnest(${column(last, "server_id")}::bigint[], ${column(last, "user_id")}::bigint[], ${column(last, "reason")}::text[],
      ${column(last, "banned_by")}::bigint[], ${column(last, "banned_at")}::bigint[])
    ON CONFLICT (server_id, user_id) DO UPDATE SET reason = excluded.reason, banned_by = excluded.banned_by`
})

export const deleteBan = defineWrite<{ server_id: Snowflake; user_id: Snowflake }>(
  "deleteBan",
  (sql, rows) => sql`
    DELETE FROM bans USING unnest(${column(rows, "server_id")}::bigint[], ${column(rows, "user_id")}::bigint[]) AS t (server_id, user_id)
    WHERE bans.server_id = t.server_id AND bans.user_id = t.user_id`,
)

export const bansStorage = (sql: Sql) => ({
  async find(server: Snowflake, users: readonly Snowflake[]): Promise<Map<Snowflake, BanState>> {
    const rows = await sql<BanState[]>`
      SELECT user_id, reason, banned_by::text AS banned_by, banned_at FROM bans WHERE server_id = ${server} AND user_id = ANY(${[...users]}::bigint[])`
    return new Map(rows.map(row => [row.user_id, row]))
  },

  async list(server: Snowflake, after: Snowflake, limit: number): Promise<BanState[]> {
    return sql<BanState[]>`
      SELECT user_id, reason, banned_by::text AS banned_by, banned_at FROM bans
      WHERE server_id = ${server} AND user_id > ${after} ORDER BY user_id LIMIT ${limit}`
  },
})
