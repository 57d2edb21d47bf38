import type { Snowflake } from "../../contract/core/fields.ts"
import type { Invite } from "../../contract/communities/invites.ts"
import { limits } from "../../contract/core/limits.ts"
import type { InviteState } from "../../domain/communities/invites.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

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
        "ended_at",
      ],
      leftOut: { number: "The order in which invites were made" },
      atPurge: "kept",
    },
  },
}

export const insertInvite = defineWrite<InviteState>(
  "insertInvite",
  (sql, rows) => sql`
    INSERT INTO invites (code, server_id, channel_id, inviter_id, max_age, max_uses, temporary, uses, created_at, expires_at, ended_at)
    SELECT * FROM unnest(${column(rows, "code")}::text[], ${column(rows, "server_id")}::bigint[], ${column(rows, "channel_id")}::bigint[],
      ${column(rows, "inviter_id")}::bigint[], ${column(rows, "max_age")}::int[], ${column(rows, "max_uses")}::int[], ${column(rows, "temporary")}::text[]::boolean[],
      ${column(rows, "uses")}::int[], ${column(rows, "created_at")}::bigint[], ${column(rows, "expires_at")}::bigint[],
      ${column(rows, "ended_at")}::bigint[])`,
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

interface EndedInvite {
  code: string
  uses: number
  ended_at: number
}

/** It lets nobody in any longer, but stays in the list. */
export const endInvite = defineWrite<EndedInvite>("endInvite", (sql, rows) => {
  const last = lastOf(rows, row => row.code)
  return sql`
    UPDATE invites SET uses = t.uses, ended_at = t.ended_at
    FROM unnest(${column(last, "code")}::text[], ${column(last, "uses")}::int[], ${column(last, "ended_at")}::bigint[]) AS t (code, uses, ended_at)
    WHERE invites.code = t.code`
})

/** After `endInvite`: of a server's invites that ended those that ended last are kept. */
export const forgetEndedInvites = defineWrite<{ server_id: Snowflake }>(
  "forgetEndedInvites",
  (sql, rows) => sql`
    DELETE FROM invites WHERE code IN (
      SELECT old.code FROM (SELECT DISTINCT unnest(${column(rows, "server_id")}::bigint[]) AS id) AS servers
      CROSS JOIN LATERAL (
        SELECT code FROM invites WHERE server_id = servers.id AND ended_at IS NOT NULL
        ORDER BY ended_at DESC, code OFFSET ${limits.endedInvitesKept}
      ) AS old)`,
)

/** Of `invites AS i`. */
const columns = (sql: Sql) => sql`
  i.code, i.server_id, i.channel_id, i.inviter_id, i.max_age, i.max_uses, i.temporary, i.uses, i.created_at, i.expires_at, i.ended_at`

export const invitesStorage = (sql: Sql) => ({
  async find(code: string): Promise<InviteState | undefined> {
    const [row] = await sql<InviteState[]>`SELECT ${columns(sql)} FROM invites AS i WHERE code = ${code}`
    return row
  },

  async withServer(code: string): Promise<(InviteState & { server_name: string }) | undefined> {
    const [row] = await sql<(InviteState & { server_name: string })[]>`
      SELECT ${columns(sql)}, s.name AS server_name FROM invites AS i JOIN servers AS s ON s.id = i.server_id WHERE i.code = ${code}`
    return row
  },

  async ofServer(server: Snowflake, codes: readonly string[]): Promise<Map<string, InviteState>> {
    const rows = await sql<
      InviteState[]
    >`SELECT ${columns(sql)} FROM invites AS i WHERE server_id = ${server} AND code = ANY(${[...codes]}::text[])`
    return new Map(rows.map(row => [row.code, row]))
  },

  /** Those that have not ended. */
  async count(server: Snowflake): Promise<number> {
    const [row] = await sql<{ count: number }[]>`
      SELECT count(*)::int AS count FROM invites WHERE server_id = ${server} AND ended_at IS NULL`
    return row!.count
  },

  /**
   * All that were not revoked, newest first; bounded by what a server may have and what is kept of
   * ended ones.
   */
  async list(server: Snowflake): Promise<Invite[]> {
    return sql<Invite[]>`
      SELECT code, server_id, channel_id, inviter_id, max_age, max_uses, temporary, uses, created_at, expires_at FROM invites
      WHERE server_id = ${server} ORDER BY created_at DESC, number DESC`
  },

  async expired(now: number, limit: number): Promise<{ code: string; server_id: Snowflake }[]> {
    return sql<
      { code: string; server_id: Snowflake }[]
    >`SELECT code, server_id FROM invites WHERE expires_at <= ${now} AND ended_at IS NULL ORDER BY expires_at LIMIT ${limit}`
  },
})
