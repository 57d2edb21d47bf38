import type { Snowflake } from "../../contract/core/fields.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import type { UserRow } from "./users.ts"
import { column, defineWrite } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    external_accounts: {
      userColumns: ["user_id"],
      key: { provider: "text", issuer: "text", subject: "text" },
      given: ["provider", "issuer", "subject", "user_id", "linked_at"],
      atPurge: "erased",
    },
  },
  others: {
    oauth_states: {
      why: "Sign-ins under way at a provider, of nobody known yet; gone after ten minutes",
      columns: { address: "Counts how many one address has begun" },
    },
  },
}

/** A sign-in that was begun at a provider. */
export interface OAuthStateRow {
  state_hash: string
  provider: string
  redirect_uri: string
  /** SHA-256 of the verifier that the client holds. */
  code_challenge: string
  nonce: string | null
  /** What limits count by. */
  address: string
  expires_at: number
}

/** An account elsewhere that signs in here. */
export interface ExternalAccountRow {
  provider: string
  issuer: string
  subject: string
  user_id: Snowflake
  linked_at: number
}

/** Refused like an account whose name is taken: the caller looks for the faster one again. */
export const insertExternalAccount = defineWrite<ExternalAccountRow>(
  "insertExternalAccount",
  (sql, rows) => sql`
    INSERT INTO external_accounts (provider, issuer, subject, user_id, linked_at)
    SELECT * FROM unnest(${column(rows, "provider")}::text[], ${column(rows, "issuer")}::text[], ${column(rows, "subject")}::text[],
      ${column(rows, "user_id")}::bigint[], ${column(rows, "linked_at")}::bigint[])`,
  { external_accounts_pkey: "user_exists" },
)

/** Ends what signs users in since a moment, in Unix seconds. */
export const unlinkExternalAccounts = defineWrite<{ user_id: Snowflake; since: number }>(
  "unlinkExternalAccounts",
  (sql, rows) => sql`
    DELETE FROM external_accounts e
    USING unnest(${column(rows, "user_id")}::bigint[], ${column(rows, "since")}::bigint[]) AS gone (user_id, since)
    WHERE e.user_id = gone.user_id AND e.linked_at >= gone.since`,
)

export const oauthStorage = (sql: Sql) => ({
  /**
   * Keeps a sign-in that begins, in one of the places that its address has. Of several that choose
   * a place at once one gets it, and the others look again, so there are never more. @returns false
   * when all places are taken
   */
  async begin(state: OAuthStateRow, now: number, places: number): Promise<boolean> {
    for (let looks = 0; looks <= places; looks++) {
      const [row] = await sql<{ isFree: boolean; isKept: boolean }[]>`
        WITH free AS (
          SELECT place FROM generate_series(1, ${places}::int) AS place
          WHERE NOT EXISTS (SELECT FROM oauth_states s WHERE s.address = ${state.address} AND s.place = place.place AND s.expires_at > ${now})
          ORDER BY random() LIMIT 1
        ), kept AS (
          INSERT INTO oauth_states AS s (state_hash, provider, redirect_uri, code_challenge, nonce, address, place, expires_at)
          SELECT ${state.state_hash}, ${state.provider}, ${state.redirect_uri}, ${state.code_challenge}, ${state.nonce}, ${state.address},
            place, ${state.expires_at}::bigint FROM free
          ON CONFLICT (address, place) DO UPDATE SET state_hash = excluded.state_hash, provider = excluded.provider,
            redirect_uri = excluded.redirect_uri, code_challenge = excluded.code_challenge, nonce = excluded.nonce,
            expires_at = excluded.expires_at WHERE s.expires_at <= ${now}
          RETURNING 1
        )
        SELECT EXISTS (SELECT FROM free) AS "isFree", EXISTS (SELECT FROM kept) AS "isKept"`
      if (row!.isKept) return true
      if (!row!.isFree) return false
    }
    return false
  },

  /** Seconds until one of an address's places becomes free. */
  async waitOf(address: string, now: number): Promise<number> {
    const [row] = await sql<{ wait: number | null }[]>`
      SELECT (min(expires_at) - ${now}::bigint)::int AS wait FROM oauth_states WHERE address = ${address} AND expires_at > ${now}`
    return row?.wait ?? 1
  },

  /** Takes a sign-in that was begun: nobody finds it again. */
  async take(stateHash: string, now: number): Promise<OAuthStateRow | undefined> {
    const [row] = await sql<OAuthStateRow[]>`
      DELETE FROM oauth_states WHERE state_hash = ${stateHash}
      RETURNING state_hash, provider, redirect_uri, code_challenge, nonce, address, expires_at`
    return row && row.expires_at > now ? row : undefined
  },

  /** Forgets what nobody came back from. */
  async forgetExpired(before: number, limit: number): Promise<number> {
    const { count } = await sql`
      DELETE FROM oauth_states WHERE state_hash IN (SELECT state_hash FROM oauth_states WHERE expires_at <= ${before} LIMIT ${limit})`
    return count
  },

  /** Whom an account elsewhere signs in. */
  async userOf({
    provider,
    issuer,
    subject,
  }: Pick<ExternalAccountRow, "provider" | "issuer" | "subject">): Promise<UserRow | undefined> {
    const [row] = await sql<UserRow[]>`
      SELECT u.* FROM external_accounts e JOIN users u ON u.id = e.user_id
      WHERE e.provider = ${provider} AND e.issuer = ${issuer} AND e.subject = ${subject}`
    return row
  },
})
