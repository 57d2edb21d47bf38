import type { Snowflake } from "../contract/fields.ts"
import type { AccountBars } from "../domain/accounts.ts"
import type { SessionState } from "../domain/states.ts"
import type { Sql } from "./database.ts"
import { column, defineWrite } from "./write.ts"

export type Session = SessionState

export interface SessionRow extends SessionState {
  user_id: Snowflake
  ip_address: string
  user_agent: string
}

/** A session with what the door needs to know of its user. */
export interface KnownSession extends AccountBars {
  session_id: Snowflake
  user_id: Snowflake
  username: string
  badges: string[]
  /** As it is at the time of the look. */
  tier: string
  bot: boolean
  permissions: string[]
  token_hash: string
  expires_at: number
  last_activity: number
  /** Its address and user agent, as tokens.ts shortens them. */
  origin: string
}

export const insertSession = defineWrite<SessionRow>(
  "insertSession",
  (sql, rows) => sql`
    INSERT INTO sessions (id, user_id, token_hash, ip_address, user_agent, created_at, expires_at, last_activity)
    SELECT * FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "user_id")}::bigint[], ${column(rows, "token_hash")}::text[],
      ${column(rows, "ip_address")}::text[], ${column(rows, "user_agent")}::text[], ${column(rows, "created_at")}::bigint[],
      ${column(rows, "expires_at")}::bigint[], ${column(rows, "last_activity")}::bigint[])`,
)

export const deleteSession = defineWrite<{ id: Snowflake }>(
  "deleteSession",
  (sql, rows) => sql`DELETE FROM sessions WHERE id = ANY(${column(rows, "id")}::bigint[])`,
)

export const touchSession = defineWrite<{ id: Snowflake; expires_at: number; last_activity: number }>(
  "touchSession",
  (sql, rows) => {
    // Of several touches of one session in a batch the last counts; PostgreSQL would take any.
    const last = [...new Map(rows.map(row => [row.id, row])).values()]
    return sql`
    UPDATE sessions SET expires_at = t.expires_at, last_activity = t.last_activity
    FROM unnest(${column(last, "id")}::bigint[], ${column(last, "expires_at")}::bigint[], ${column(last, "last_activity")}::bigint[])
      AS t (id, expires_at, last_activity)
    WHERE sessions.id = t.id`
  },
)

export const sessionsStorage = (sql: Sql) => ({
  /** A bot is kept out by what keeps its owner out, too. */
  async find(ids: readonly Snowflake[]): Promise<KnownSession[]> {
    return sql<KnownSession[]>`
      SELECT s.id AS session_id, s.user_id, u.username, u.badges, u.bot, u.permissions, s.token_hash, s.expires_at, s.last_activity,
        CASE WHEN u.tier_expires_at <= extract(epoch FROM now()) THEN 'standard' ELSE u.tier END AS tier,
        GREATEST(u.locked_until, o.locked_until) AS locked_until,
        CASE WHEN o.locked_until > u.locked_until THEN o.lock_reason ELSE u.lock_reason END AS lock_reason,
        u.deletion_status <> 'active' OR coalesce(o.deletion_status <> 'active', false) AS is_deleted,
        u.must_rename, u.rename_reason,
        left(encode(sha256(convert_to(s.ip_address || E'\\n' || s.user_agent, 'UTF8')), 'base64'), 22) AS origin
      FROM sessions s JOIN users u ON u.id = s.user_id LEFT JOIN users o ON o.id = u.owner_id
      WHERE s.id = ANY(${[...new Set(ids)]}::bigint[])`
  },

  /** Sessions that are over, for the sweep that catches what no job ended. */
  async expired(now: number, limit: number): Promise<{ id: Snowflake; user_id: Snowflake }[]> {
    return sql<
      { id: Snowflake; user_id: Snowflake }[]
    >`SELECT id, user_id FROM sessions WHERE expires_at <= ${now} ORDER BY expires_at LIMIT ${limit}`
  },

  /** Until when a name is locked after failed sign-ins; 0 when it is not. */
  async lockedUntil(name: string): Promise<number> {
    const [row] = await sql<
      { locked_until: number }[]
    >`SELECT locked_until FROM failed_logins WHERE name = lower(${name})`
    return row?.locked_until ?? 0
  },

  /** Counts a failed sign-in, of a name that exists or not. The count starts anew after a lock or a quiet time. */
  async countFailure(name: string, now: number, allowed: number, lockSeconds: number): Promise<void> {
    await sql`
      INSERT INTO failed_logins AS f (name, failures, last_at, locked_until)
      VALUES (lower(${name}), 1, ${now}, CASE WHEN ${allowed}::int <= 1 THEN ${now + lockSeconds}::bigint ELSE 0 END)
      ON CONFLICT (name) DO UPDATE SET
        failures = CASE WHEN f.last_at < ${now - lockSeconds} OR (f.locked_until > 0 AND f.locked_until <= ${now}) THEN 1 ELSE f.failures + 1 END,
        locked_until = CASE WHEN f.last_at >= ${now - lockSeconds} AND f.failures + 1 >= ${allowed} AND (f.locked_until = 0 OR f.locked_until > ${now})
                            THEN ${now + lockSeconds}::bigint ELSE 0 END,
        last_at = ${now}`
  },

  async clearFailures(names: readonly string[]): Promise<void> {
    await sql`DELETE FROM failed_logins WHERE name = ANY(${names.map(name => name.toLowerCase())}::text[])`
  },
})
