import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { failureKey } from "./failures.ts"

const why = "Accounts of those who run the service: they are no users"
export const personalData: PersonalData = {
  others: {
    operators: { why },
    operator_sessions: { why: "Sessions of operators, who are no users", columns: { address: why } },
    operator_challenges: { why: "Sign-ins of operators, who are no users" },
    operator_failures: { why: "Failed sign-ins of operators, who are no users" },
  },
}

export interface OperatorRow {
  id: string
  name: string
  password_hash: string
  created_at: number
  last_login: number | null
  must_setup_otp: boolean
  totp_secret: string | null
  totp_pending: string | null
  totp_step: number
  backup_codes: string[]
}

/** The account behind a session that has not ended. */
export interface OperatorSession {
  operator_id: string
  name: string
}

export const operatorsStorage = (sql: Sql) => {
  const columns = sql`
    id::text, name, password_hash, created_at, last_login, must_setup_otp, totp_secret, totp_pending, totp_step, backup_codes`
  return {
    /** @returns undefined where the name is taken, in any case */
    async create(name: string, password_hash: string): Promise<string | undefined> {
      const [row] = await sql<{ id: string }[]>`
      INSERT INTO operators (name, password_hash) VALUES (${name}, ${password_hash})
      ON CONFLICT (lower(name)) DO NOTHING RETURNING id::text`
      return row?.id
    },

    async findByName(name: string): Promise<OperatorRow | undefined> {
      const [row] = await sql<OperatorRow[]>`SELECT ${columns} FROM operators WHERE lower(name) = lower(${name})`
      return row
    },

    async find(id: string): Promise<OperatorRow | undefined> {
      const [row] = await sql<OperatorRow[]>`SELECT ${columns} FROM operators WHERE id = ${id}`
      return row
    },

    async forgetExpired(): Promise<void> {
      await sql`
      WITH challenges AS (DELETE FROM operator_challenges WHERE expires_at <= extract(epoch FROM now()))
      DELETE FROM operator_sessions WHERE expires_at <= extract(epoch FROM now())`
    },

    async endSession(token_hash: string): Promise<OperatorSession | undefined> {
      const [row] = await sql<OperatorSession[]>`
      WITH ended AS (DELETE FROM operator_sessions WHERE token_hash = ${token_hash} RETURNING operator_id)
      SELECT operator_id::text, name FROM ended JOIN operators ON id = operator_id`
      return row
    },

    /**
     * Their other sessions end, and what was begun with the former password. @returns how many
     * sessions, or undefined where the password was not the former one any more
     */
    async changePassword(change: {
      id: string
      former: string
      password_hash: string
      kept: string
    }): Promise<number | undefined> {
      const { id, former, password_hash, kept } = change
      const [row] = await sql<{ known: number; ended: number }[]>`
      WITH known AS (
             UPDATE operators SET password_hash = ${password_hash}, totp_pending = NULL
             WHERE id = ${id} AND password_hash = ${former} RETURNING id),
           ended AS (
             DELETE FROM operator_sessions AS s USING known WHERE s.operator_id = known.id AND token_hash <> ${kept} RETURNING 1),
           void AS (DELETE FROM operator_challenges AS c USING known WHERE c.operator_id = known.id)
      SELECT (SELECT count(*) FROM known)::int AS known, (SELECT count(*) FROM ended)::int AS ended`
      return row!.known === 0 ? undefined : row!.ended
    },

    /** @returns false where there is no second factor any more */
    async renewBackupCodes(id: string, backup_codes: readonly string[]): Promise<boolean> {
      const rows = await sql`
      UPDATE operators SET backup_codes = ${backup_codes as string[]} WHERE id = ${id} AND totp_secret IS NOT NULL RETURNING 1`
      return rows.length > 0
    },

    async list(): Promise<(OperatorRow & { sessions: number })[]> {
      return sql<(OperatorRow & { sessions: number })[]>`
      SELECT ${columns}, (SELECT count(*)::int FROM operator_sessions AS s WHERE s.operator_id = o.id AND expires_at > extract(epoch FROM now())) AS sessions
      FROM operators AS o ORDER BY lower(name) LIMIT 1000`
    },

    /**
     * Another password; an authenticator app has to be set up again. Sessions end, and so does the
     * lock of the name. @returns false: there is nobody of that name
     */
    async reset(name: string, password_hash: string): Promise<boolean> {
      const rows = await sql`
      WITH known AS (
             UPDATE operators SET password_hash = ${password_hash}, must_setup_otp = true, totp_secret = NULL, totp_pending = NULL,
               totp_step = 0, backup_codes = '{}'
             WHERE lower(name) = lower(${name}) RETURNING id),
           ended AS (DELETE FROM operator_sessions AS s USING known WHERE s.operator_id = known.id),
           void AS (DELETE FROM operator_challenges AS c USING known WHERE c.operator_id = known.id),
           unlocked AS (
             DELETE FROM operator_failures USING known WHERE key IN (${failureKey.ofName(name)}, 'p ' || known.id))
      SELECT 1 FROM known`
      return rows.length > 0
    },

    /** Their sessions end; what they did stays in the trail. @returns false: there is nobody of that name */
    async remove(name: string): Promise<boolean> {
      const rows = await sql`DELETE FROM operators WHERE lower(name) = lower(${name}) RETURNING 1`
      return rows.length > 0
    },

    /** Every call of an operator asks: what ends a session ends it everywhere at once. */
    async findSession(token_hash: string): Promise<OperatorSession | undefined> {
      const [row] = await sql<OperatorSession[]>`
      SELECT operator_id::text, name FROM operator_sessions AS s JOIN operators AS o ON o.id = s.operator_id
      WHERE token_hash = ${token_hash} AND expires_at > extract(epoch FROM now())`
      return row
    },
  }
}
