import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"

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

export const operatorsStorage = (sql: Sql) => ({
  /** @returns undefined where the name is taken, in any case */
  async create(name: string, password_hash: string): Promise<string | undefined> {
    const [row] = await sql<{ id: string }[]>`
      INSERT INTO operators (name, password_hash) VALUES (${name}, ${password_hash})
      ON CONFLICT (lower(name)) DO NOTHING RETURNING id::text`
    return row?.id
  },

  async findByName(name: string): Promise<OperatorRow | undefined> {
    const [row] = await sql<OperatorRow[]>`SELECT * FROM operators WHERE lower(name) = lower(${name})`
    return row
  },

  async find(id: string): Promise<OperatorRow | undefined> {
    const [row] = await sql<OperatorRow[]>`SELECT * FROM operators WHERE id = ${id}`
    return row
  },

  /** @param lastsSeconds from now on, by the clock of the database, which judges sessions, too */
  async openSession(session: {
    token_hash: string
    operator_id: string
    lastsSeconds: number
    address: string
  }): Promise<void> {
    const { token_hash, operator_id, lastsSeconds, address } = session
    await sql`
      WITH over AS (DELETE FROM operator_sessions WHERE expires_at <= extract(epoch FROM now()))
      INSERT INTO operator_sessions (token_hash, operator_id, expires_at, address)
      VALUES (${token_hash}, ${operator_id}, extract(epoch FROM now())::bigint + ${lastsSeconds}, ${address})`
  },

  /** Every call of an operator asks: what ends a session ends it everywhere at once. */
  async findSession(token_hash: string): Promise<OperatorSession | undefined> {
    const [row] = await sql<OperatorSession[]>`
      SELECT operator_id::text, name FROM operator_sessions AS s JOIN operators AS o ON o.id = s.operator_id
      WHERE token_hash = ${token_hash} AND expires_at > extract(epoch FROM now())`
    return row
  },
})
