import type { Snowflake } from "../contract/fields.ts"
import type { InviteState } from "../domain/states.ts"
import type { PersonalData } from "../domain/personal-data.ts"
import type { Sql } from "./database.ts"
import { column, defineWrite, lastOf } from "./write.ts"

export const personalData: PersonalData = {
  personal: {
    invites: {
      userColumns: ["inviter_id"],
      key: { code: "text" },
      given: [
        "code",
        "server_id",
        "channel_id",
        "inviter_id",
        "max_age",
        "max_uses",
        "temporary",
        "uses",
        "created_at",
        "expires_at",
      ],
      atPurge: "kept",
    },
  },
}

export const insertInvite = defineWrite<InviteState>(
  "insertInvite",
  (sql, rows) => sql`
    INSERT INTO invites (code, server_id, channel_id, inviter_id, max_age, max_uses, temporary, uses, created_at, expires_at)
    SELECT * FROM unnest(${column(rows, "code")}::text[], ${column(rows, "server_id")}::bigint[], ${column(rows, "channel_id")}::bigint[],
      ${column(rows, "inviter_id")}::bigint[], ${column(rows, "max_age")}::int[], ${column(rows, "max_uses")}::int[], ${column(rows, "temporary")}::text[]::boolean[],
      ${column(rows, "uses")}::int[], ${column(rows, "created_at")}::bigint[], ${column(rows, "expires_at")}::bigint[])`,
)

export const setInviteUses = defineWrite<{ code: string; uses: number }>("setInviteUses", (sql, rows) => {
  const last = lastOf(rows, row => row.code)
  return sql`
    UPDATE invites SET uses = t.uses FROM unnest(${column(last, "code")}::text[], ${column(last, "uses")}::int[]) AS t (code, uses)
    WHERE invites.code = t.code`
})

export const deleteInvite = defineWrite<{ code: string }>(
  "deleteInvite",
  (sql, rows) => sql`DELETE FROM invites WHERE code = ANY(${column(rows, "code")}::text[])`,
)

export const invitesStorage = (sql: Sql) => ({
  async find(code: string): Promise<InviteState | undefined> {
    const [row] = await sql<InviteState[]>`SELECT * FROM invites WHERE code = ${code}`
    return row
  },

  async withServer(code: string): Promise<(InviteState & { server_name: string }) | undefined> {
    const [row] = await sql<(InviteState & { server_name: string })[]>`
      SELECT i.*, s.name AS server_name FROM invites i JOIN servers s ON s.id = i.server_id WHERE i.code = ${code}`
    return row
  },

  async ofServer(server: Snowflake, codes: readonly string[]): Promise<Map<string, InviteState>> {
    const rows = await sql<
      InviteState[]
    >`SELECT * FROM invites WHERE server_id = ${server} AND code = ANY(${[...codes]}::text[])`
    return new Map(rows.map(row => [row.code, row]))
  },

  async count(server: Snowflake): Promise<number> {
    const [row] = await sql<{ count: number }[]>`SELECT count(*)::int AS count FROM invites WHERE server_id = ${server}`
    return row!.count
  },

  /** Those that still let somebody in at `now`, in Unix seconds, newest first. */
  async list(server: Snowflake, now: number, limit: number): Promise<InviteState[]> {
    return sql<InviteState[]>`
      SELECT code, server_id, channel_id, inviter_id, max_age, max_uses, temporary, uses, created_at, expires_at FROM invites
      WHERE server_id = ${server} AND (expires_at IS NULL OR expires_at > ${now}) AND (max_uses = 0 OR uses < max_uses)
      ORDER BY created_at DESC, code LIMIT ${limit}`
  },

  async expired(now: number, limit: number): Promise<{ code: string; server_id: Snowflake }[]> {
    return sql<
      { code: string; server_id: Snowflake }[]
    >`SELECT code, server_id FROM invites WHERE expires_at <= ${now} ORDER BY expires_at LIMIT ${limit}`
  },
})
