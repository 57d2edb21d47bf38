import type { Snowflake } from "../../contract/core/fields.ts"
import {
  maxBannedExpressions,
  maxBannedUsernames,
  maxExpressionSizes,
  type BannedUsername,
} from "../../domain/accounts/banned-usernames.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite } from "../core/write.ts"

export const personalData: PersonalData = {
  others: {
    banned_usernames: {
      why: "What nobody may be called. Operators decide it; it says nothing of who was",
      columns: { created_by: "An operator, who is no user" },
    },
  },
}

export interface BannedUsernameRow extends BannedUsername {
  created_at: number
}

export interface NewBannedUsername {
  readonly pattern: string
  readonly is_regex: boolean
  /** Of a compiled expression; 0 for a name. */
  readonly size: number
  readonly reason: string | null
  readonly created_by: Snowflake | null
}

/** The name of an account that an operator does not want to see again. It may be banned already. */
export const banUsername = defineWrite<{
  pattern: string
  reason: string | null
  created_by: Snowflake | null
  created_at: number
}>(
  "banUsername",
  (sql, rows) => sql`
    WITH banned AS (
      INSERT INTO banned_usernames (pattern, is_regex, reason, created_by, created_at)
      SELECT pattern, false, reason, created_by, created_at FROM unnest(${column(rows, "pattern")}::text[], ${column(rows, "reason")}::text[],
        ${column(rows, "created_by")}::bigint[], ${column(rows, "created_at")}::bigint[]) AS b (pattern, reason, created_by, created_at)
      ON CONFLICT DO NOTHING RETURNING 1)
    UPDATE service SET names_version = names_version + 1 WHERE EXISTS (SELECT 1 FROM banned)`,
)

/** Every change raises the version that is asked for whenever somebody chooses a name. */
export const bannedUsernamesStorage = (sql: Sql) => ({
  async version(): Promise<number> {
    const [row] = await sql<{ names_version: number }[]>`SELECT names_version FROM service`
    return row!.names_version
  },

  /** The newest first. */
  async list(): Promise<BannedUsernameRow[]> {
    // A ban of the present name of an account is not kept from going beyond the bound.
    return sql<BannedUsernameRow[]>`
      SELECT id::text AS id, pattern, is_regex, reason, created_at FROM banned_usernames
      ORDER BY banned_usernames.id DESC LIMIT ${2 * maxBannedUsernames}`
  },

  async ban({ pattern, is_regex, size, reason, created_by }: NewBannedUsername): Promise<"banned" | "known" | "full"> {
    const isSame = sql`
      is_regex = ${is_regex}
        AND (CASE WHEN is_regex THEN pattern ELSE lower(pattern) END) = CASE WHEN ${is_regex} THEN ${pattern}::text ELSE lower(${pattern}::text) END`
    const [row] = await sql<{ isBanned: boolean; isKnown: boolean }[]>`
      WITH kept AS (
             SELECT count(*) AS n, count(*) FILTER (WHERE is_regex) AS expressions, coalesce(sum(size), 0) AS sizes FROM banned_usernames),
           known AS (
             SELECT 1 FROM banned_usernames WHERE ${isSame}),
           banned AS (
             INSERT INTO banned_usernames (pattern, is_regex, size, reason, created_by, created_at)
             SELECT ${pattern}, ${is_regex}, ${size}::integer, ${reason}::text, ${created_by}::bigint, extract(epoch FROM now())::bigint FROM kept
             WHERE n < ${maxBannedUsernames} AND (${!is_regex} OR (expressions < ${maxBannedExpressions} AND sizes + ${size}::integer <= ${maxExpressionSizes}))
             ON CONFLICT DO NOTHING RETURNING 1),
           changed AS (UPDATE service SET names_version = names_version + 1 WHERE EXISTS (SELECT 1 FROM banned))
      SELECT EXISTS (SELECT 1 FROM banned) AS "isBanned", EXISTS (SELECT 1 FROM known) AS "isKnown"`
    if (row!.isBanned) return "banned"
    if (row!.isKnown) return "known"
    // Somebody has banned it at the same moment, or there is no place for it.
    const again = await sql`SELECT 1 FROM banned_usernames WHERE ${isSame}`
    return again.length > 0 ? "known" : "full"
  },

  async isFull(): Promise<boolean> {
    const [row] = await sql<{ n: number }[]>`SELECT count(*)::int AS n FROM banned_usernames`
    return row!.n >= maxBannedUsernames
  },

  async lift(id: string): Promise<boolean> {
    const rows = await sql`
      WITH lifted AS (DELETE FROM banned_usernames WHERE id = ${id} RETURNING 1)
      UPDATE service SET names_version = names_version + 1 WHERE EXISTS (SELECT 1 FROM lifted) RETURNING 1`
    return rows.length > 0
  },
})
