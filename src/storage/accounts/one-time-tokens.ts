import type { Snowflake } from "../../contract/core/fields.ts"
import type { OneTimeToken } from "../../domain/accounts/one-time-tokens.ts"
import { type PersonalData, secretReason } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    one_time_tokens: {
      userColumns: ["user_id"],
      key: { id: "bigint" },
      given: ["id", "user_id", "kind", "email", "groups", "is_confirmed", "failures", "expires_at"],
      leftOut: { token_hash: secretReason, totp_secret: secretReason },
      atPurge: "erased",
    },
  },
}

export interface OneTimeTokenRow extends OneTimeToken {
  user_id: Snowflake
}

export const putOneTimeToken = defineWrite<OneTimeTokenRow>("putOneTimeToken", (sql, rows) => {
  const last = lastOf(rows, row => row.id)
  return sql`
    INSERT INTO one_time_tokens (id, user_id, kind, token_hash, email, totp_secret, is_confirmed, failures, expires_at, groups)
    SELECT t.id, t.user_id, t.kind, t.token_hash, t.email, t.totp_secret, t.is_confirmed, t.failures, t.expires_at, t.groups::jsonb FROM unnest(${column(last, "id")}::bigint[], ${column(last, "user_id")}::bigint[], ${column(last, "kind")}::text[],
      ${column(last, "token_hash")}::text[], ${column(last, "email")}::text[], ${column(last, "totp_secret")}::text[],
      ${column(last, "is_confirmed")}::text[]::boolean[],
      ${column(last, "failures")}::integer[], ${column(last, "expires_at")}::bigint[],
      ${last.map(({ groups }) => (groups ? JSON.stringify(groups) : null))}::text[])
      AS t (id, user_id, kind, token_hash, email, totp_secret, is_confirmed, failures, expires_at, groups)
    ON CONFLICT (id) DO UPDATE SET failures = excluded.failures, token_hash = excluded.token_hash, expires_at = excluded.expires_at`
})

export const deleteOneTimeToken = defineWrite<{ id: Snowflake }>(
  "deleteOneTimeToken",
  (sql, rows) => sql`DELETE FROM one_time_tokens WHERE id = ANY(${column(rows, "id")}::bigint[])`,
)

export const oneTimeTokensStorage = (sql: Sql) => ({
  /** The user of a token, and its purpose. The effects are decided in the user's home. */
  async find(id: Snowflake): Promise<OneTimeTokenRow | undefined> {
    const [row] = await sql<OneTimeTokenRow[]>`SELECT * FROM one_time_tokens WHERE id = ${id}`
    return row
  },

  async ofUser(user: Snowflake): Promise<OneTimeToken[]> {
    return sql<OneTimeToken[]>`
      SELECT id, kind, token_hash, email, totp_secret, is_confirmed, failures, expires_at, groups FROM one_time_tokens WHERE user_id = ${user} ORDER BY id`
  },

  /** Forgets some that were over by then. */
  async forgetExpired(before: number, limit: number): Promise<number> {
    const { count } = await sql`
      DELETE FROM one_time_tokens WHERE id IN (SELECT id FROM one_time_tokens WHERE expires_at <= ${before} LIMIT ${limit})`
    return count
  },
})
