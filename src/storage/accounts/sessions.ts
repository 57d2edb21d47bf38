import type { Snowflake } from "../../contract/core/fields.ts"
import type { AccountBars, OwnAccount } from "../../domain/accounts/accounts.ts"
import type { SessionState } from "../../domain/accounts/user-state.ts"
import { type PersonalData, secretReason } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    sessions: {
      userColumns: ["user_id"],
      key: { id: "bigint" },
      given: ["id", "user_id", "ip_address", "user_agent", "created_at", "expires_at", "last_activity"],
      leftOut: { token_hash: secretReason },
      atPurge: "erased",
    },
    failed_logins: {
      userColumns: "names",
      key: { name: "text" },
      given: ["name", "failures", "locked_until", "last_at"],
      atPurge: "erased",
    },
  },
}

export type Session = SessionState

/** What decides whether a connection is let in, and whose it is. */
export type HolderRow = AccountBars &
  Pick<KnownSession, "session_id" | "user_id" | "bot" | "token_hash" | "expires_at" | "origin">

export interface SessionRow extends SessionState {
  user_id: Snowflake
  ip_address: string
  user_agent: string
  last_activity: number
}

export interface ListedSession extends Omit<SessionRow, "user_id" | "token_hash"> {
  device_id: string | null
}

/** `at`: Unix seconds. */
export interface SessionUse {
  readonly id: Snowflake
  readonly at: number
}

/** A session with the facts of its user that the gateway and HTTP need. */
export interface KnownSession extends AccountBars {
  session_id: Snowflake
  user_id: Snowflake
  username: string
  badges: string[]
  /** As it is at the time of the look. */
  tier: string
  bot: boolean
  /** Of a bot. */
  owner_id: Snowflake | null
  permissions: string[]
  /** When it is over, if it is not. */
  tier_expires_at: number | null
  /** Others see that the user types. */
  typing_indicators: boolean
  /** Others see how far the user has read. */
  read_receipts: boolean
  /** The answer to a user's question about themselves. */
  account: OwnAccount
  token_hash: string
  expires_at: number
  last_activity: number
  /** Its address and user agent, as tokens.ts shortens them. */
  origin: string
}

/** A bot's is no sign-in. */
export const insertSession = defineWrite<SessionRow>(
  "insertSession",
  (sql, rows) => sql`
    WITH signed_in AS (
      UPDATE users SET last_login = greatest(last_login, s.at)
      FROM (SELECT user_id, max(at) AS at FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "user_id")}::bigint[],
        ${column(rows, "created_at")}::bigint[]) AS given (id, user_id, at) WHERE id <> user_id GROUP BY user_id) AS s
      WHERE users.id = s.user_id)
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
    const last = lastOf(rows, row => row.id)
    return sql`
    UPDATE sessions SET expires_at = t.expires_at, last_activity = greatest(sessions.last_activity, t.last_activity)
    FROM unnest(${column(last, "id")}::bigint[], ${column(last, "expires_at")}::bigint[], ${column(last, "last_activity")}::bigint[])
      AS t (id, expires_at, last_activity)
    WHERE sessions.id = t.id`
  },
)

/** Of a user `u`, and `o`, who owns it if it is a bot: a bot is kept out by what keeps its owner out, too. */
export const bars = (sql: Sql) => sql`
  GREATEST(u.locked_until, o.locked_until) AS locked_until,
  CASE WHEN o.locked_until > u.locked_until THEN o.lock_reason ELSE u.lock_reason END AS lock_reason,
  u.deletion_status <> 'active' OR coalesce(o.deletion_status <> 'active', false) AS is_deleted,
  u.must_rename, u.rename_reason`

/** Of a session `s`: the client that signed in. */
const origin = (sql: Sql) =>
  sql`left(encode(sha256(convert_to(s.ip_address || E'\\n' || s.user_agent, 'UTF8')), 'base64'), 22) AS origin`

export const sessionsStorage = (sql: Sql) => ({
  /** A bot is kept out by what keeps its owner out, too. */
  async find(ids: readonly Snowflake[]): Promise<KnownSession[]> {
    return sql<KnownSession[]>`
      SELECT s.id AS session_id, s.user_id, u.username, u.badges, u.bot, u.owner_id, u.permissions, coalesce(c.typing_indicators_enabled, true) AS typing_indicators,
        coalesce(c.read_receipts_enabled, true) AS read_receipts, s.token_hash, s.expires_at, s.last_activity,
        CASE WHEN u.tier_expires_at <= extract(epoch FROM now()) THEN 'standard' ELSE u.tier END AS tier,
        CASE WHEN u.tier_expires_at > extract(epoch FROM now()) THEN u.tier_expires_at END AS tier_expires_at,
        ${bars(sql)},
        json_build_object('email', u.email, 'created_at', u.created_at, 'email_verified', u.email_verified, 'age_verified', u.age_verified,
          'totp_enabled', u.totp_enabled, 'deletion_status', u.deletion_status, 'deletion_at', u.deletion_at) AS account,
        ${origin(sql)}
      FROM sessions s JOIN users u ON u.id = s.user_id LEFT JOIN users o ON o.id = u.owner_id
        LEFT JOIN messaging_settings c ON c.user_id = u.id
      WHERE s.id = ANY(${[...new Set(ids)]}::bigint[])`
  },

  /** The same, as far as a connection needs it that shows its token. */
  async holders(ids: readonly Snowflake[]): Promise<HolderRow[]> {
    return sql<HolderRow[]>`
      SELECT s.id AS session_id, s.user_id, u.bot, s.token_hash, s.expires_at, ${bars(sql)}, ${origin(sql)}
      FROM sessions s JOIN users u ON u.id = s.user_id LEFT JOIN users o ON o.id = u.owner_id
      WHERE s.id = ANY(${[...new Set(ids)]}::bigint[])`
  },

  /** What a user has open, the latest activity first. Clients name no devices. */
  async ofUser(user: Snowflake, now: number): Promise<ListedSession[]> {
    return sql<ListedSession[]>`
      SELECT id, NULL AS device_id, ip_address, user_agent, created_at, expires_at, last_activity FROM sessions
      WHERE user_id = ${user} AND expires_at > ${now} ORDER BY last_activity DESC, id DESC`
  },

  /**
   * Notes when sessions were last used. No fence is needed: a time only rises, and no row comes or goes. Nobody is waited for,
   * so that nobody waits for this in a circle: who holds a row ends its session, or notes a use of now.
   */
  async noteUses(uses: readonly SessionUse[]): Promise<void> {
    await sql`
      WITH used AS MATERIALIZED (
        SELECT s.id, n.at FROM unnest(${column(uses, "id")}::bigint[], ${column(uses, "at")}::bigint[]) AS n (id, at)
          JOIN sessions s ON s.id = n.id
        WHERE s.last_activity < n.at FOR NO KEY UPDATE OF s SKIP LOCKED)
      UPDATE sessions SET last_activity = greatest(sessions.last_activity, used.at) FROM used WHERE sessions.id = used.id`
  },

  /** Sessions that are over, for the sweep that catches what no job ended. */
  async expired(now: number, limit: number): Promise<{ id: Snowflake; user_id: Snowflake }[]> {
    return sql<
      { id: Snowflake; user_id: Snowflake }[]
    >`SELECT id, user_id FROM sessions WHERE expires_at <= ${now} ORDER BY expires_at LIMIT ${limit}`
  },

  /**
   * Whether an account, or a name that nobody has, is locked after failed sign-ins. Keys: see
   * domain/failed-logins.ts.
   */
  async isLocked(key: string, now: number): Promise<boolean> {
    const [row] = await sql`SELECT 1 FROM failed_logins WHERE name = ${key} AND locked_until > ${now}`
    return row !== undefined
  },

  /**
   * Counts a failure, and locks a user after too many; false: they were locked before. Time alone
   * does not reset a count: it starts again after a lock.
   */
  async countFailure(key: string, now: number, allowed: number, lockSeconds: number): Promise<boolean> {
    const counted = await sql`
      INSERT INTO failed_logins AS f (name, failures, last_at, locked_until)
      VALUES (${key}, 1, ${now}, CASE WHEN ${allowed}::int <= 1 THEN ${now + lockSeconds}::bigint ELSE 0 END)
      ON CONFLICT (name) DO UPDATE SET (failures, locked_until, last_at) = (
        SELECT next.failures, CASE WHEN next.failures >= ${allowed}::int THEN ${now + lockSeconds}::bigint ELSE 0 END, ${now}::bigint
        FROM (SELECT CASE WHEN f.locked_until > 0 THEN 1 ELSE f.failures + 1 END AS failures) AS next)
      WHERE f.locked_until <= ${now}
      RETURNING 1`
    return counted.length > 0
  },

  /** Of what was counted before it was known to be right. */
  async takeBackFailure(key: string): Promise<void> {
    await sql`UPDATE failed_logins SET failures = greatest(failures - 1, 0), locked_until = 0 WHERE name = ${key}`
  },

  /** With `now`, a lock that holds then stays: it has come since somebody was let in. */
  async clearFailures(key: string, now?: number): Promise<void> {
    await sql`DELETE FROM failed_logins WHERE name = ${key} ${now === undefined ? sql`` : sql`AND locked_until <= ${now}`}`
  },

  /** Forgets some of the names that nobody has tried since. */
  async forgetFailures(before: number, limit: number): Promise<number> {
    const { count } = await sql`
      DELETE FROM failed_logins WHERE name IN (SELECT name FROM failed_logins WHERE last_at < ${before} LIMIT ${limit})`
    return count
  },
})
