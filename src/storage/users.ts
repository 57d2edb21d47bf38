import type { Snowflake } from "../contract/fields.ts"
import { avatarPath, type PrivateUser, type PublicUser } from "../contract/users.ts"
import { defaultPresence, type Shown } from "../domain/presences.ts"
import type { UserState } from "../domain/states.ts"
import type { Sql } from "./database.ts"
import type { Session } from "./sessions.ts"
import { voiceOfUser } from "./voice.ts"
import { column, defineWrite } from "./write.ts"

export interface UserRow {
  id: Snowflake
  username: string
  email: string | null
  password_hash: string | null
  created_at: number
  email_verified: boolean
  age_verified: boolean
  totp_enabled: boolean
  badges: string[]
  tier: string
  bot: boolean
}

/** One server of a user, with his roles there. */
export interface Membership {
  server_id: Snowflake
  roles: Snowflake[]
}

export const publicUser = (row: UserRow): PublicUser => ({
  id: row.id,
  username: row.username,
  avatar_url: row.bot ? null : avatarPath(row.id),
  created_at: row.created_at,
  badges: row.badges.slice(0, 5),
})

export const privateUser = (row: UserRow): PrivateUser => ({
  ...publicUser(row),
  email: row.email,
  email_verified: row.email_verified,
  totp_enabled: row.totp_enabled,
  age_verified: row.age_verified,
  deletion_status: "active",
  deletion_at: null,
})

export const insertUser = defineWrite<UserRow>(
  "insertUser",
  (sql, rows) => sql`
    INSERT INTO users (id, username, email, password_hash, created_at, email_verified, age_verified, badges, tier)
    SELECT u.id, u.username, u.email, u.password_hash, u.created_at, u.email_verified, u.age_verified,
           ARRAY(SELECT jsonb_array_elements_text(u.badges::jsonb)), u.tier
    FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "username")}::text[], ${column(rows, "email")}::text[],
                ${column(rows, "password_hash")}::text[], ${column(rows, "created_at")}::bigint[], ${column(rows, "email_verified")}::text[]::boolean[],
                ${column(rows, "age_verified")}::text[]::boolean[], ${rows.map(row => JSON.stringify(row.badges))}::text[], ${column(rows, "tier")}::text[])
      AS u (id, username, email, password_hash, created_at, email_verified, age_verified, badges, tier)`,
  { users_username: "user_exists", users_email: "user_exists" },
)

export const usersStorage = (sql: Sql) => ({
  async find(id: Snowflake): Promise<UserRow | undefined> {
    const [row] = await sql<UserRow[]>`SELECT * FROM users WHERE id = ${id}`
    return row
  },

  /** By name, else by e-mail address, both ignoring case. */
  async findByLogin(name: string): Promise<UserRow | undefined> {
    const [row] = await sql<UserRow[]>`
      SELECT * FROM users WHERE lower(username) = lower(${name}) OR lower(email) = lower(${name})
      ORDER BY lower(username) = lower(${name}) DESC LIMIT 1`
    return row
  },

  async exists(username: string, email: string): Promise<boolean> {
    const [row] =
      await sql`SELECT 1 FROM users WHERE lower(username) = lower(${username}) OR lower(email) = lower(${email}) LIMIT 1`
    return row !== undefined
  },

  /** The user's home as it wakes. */
  async load(id: Snowflake): Promise<UserState | undefined> {
    const [[user], sessions, [presence], voice] = await Promise.all([
      sql<UserRow[]>`SELECT * FROM users WHERE id = ${id}`,
      sql<Session[]>`SELECT id, token_hash, created_at, expires_at, last_activity FROM sessions WHERE user_id = ${id}`,
      sql<Shown[]>`SELECT status, custom_status, custom_emoji FROM presences WHERE user_id = ${id}`,
      voiceOfUser(sql, id),
    ])
    if (!user) return undefined
    return {
      id,
      username: user.username,
      email: user.email,
      badges: user.badges,
      sessions: new Map(sessions.map(session => [session.id, session])),
      presence: presence ?? defaultPresence,
      tier: user.tier,
      ...voice,
      pairs: new Map(),
    }
  },

  /** Where each of these users is a member. */
  async memberships(users: readonly Snowflake[]): Promise<Map<Snowflake, Membership[]>> {
    const rows = await sql<(Membership & { user_id: Snowflake })[]>`
      SELECT user_id, server_id, roles FROM members WHERE user_id = ANY(${[...users]}::bigint[]) ORDER BY user_id, server_id`
    const found = new Map<Snowflake, Membership[]>()
    for (const { user_id, server_id, roles } of rows) {
      const mine = found.get(user_id)
      if (mine) mine.push({ server_id, roles })
      else found.set(user_id, [{ server_id, roles }])
    }
    return found
  },
})
