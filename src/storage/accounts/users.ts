import type { Snowflake } from "../../contract/core/fields.ts"
import { avatarPath, type PrivateUser, type PublicUser, type ShownUser } from "../../contract/accounts/users.ts"
import type { Account, OwnAccount } from "../../domain/accounts/accounts.ts"
import { shownBadges } from "../../domain/accounts/badges.ts"
import type { Shown } from "../../domain/core/presences.ts"
import { newUserState, type UserState } from "../../domain/accounts/user-state.ts"
import { type PersonalData, secretReason } from "../../domain/core/personal-data.ts"
import type { Sql, Statements } from "../core/database.ts"
import type { Session } from "./sessions.ts"
import { voiceOfUser } from "../voice/voice.ts"
import { column, defineWrite, lastOf, type Write } from "../core/write.ts"
import { append } from "../../std/multi-map.ts"

const account = [
  "id",
  "username",
  "email",
  "created_at",
  "email_verified",
  "email_confirmed",
  "age_verified",
  "badges",
  "tier",
  "tier_expires_at",
  "tier_notes",
  "bot",
  "owner_id",
  "bot_permissions",
  "bot_public",
  "permissions",
  "locked_until",
  "lock_reason",
  "must_rename",
  "rename_reason",
  "deletion_status",
  "deletion_at",
  "totp_enabled",
  "last_login",
]
const accountSecrets = {
  password_hash: secretReason,
  totp_secret: secretReason,
  totp_step: "Time of the latest code, in steps of 30 seconds: part of the secret's keeping",
  backup_codes: secretReason,
}

export const personalData: PersonalData = {
  personal: {
    users: { userColumns: ["id"], key: { id: "bigint" }, given: account, leftOut: accountSecrets, atPurge: "stub" },
    bots: {
      table: "users",
      userColumns: ["owner_id"],
      key: { id: "bigint" },
      given: account,
      leftOut: accountSecrets,
      atPurge: "stub",
    },
  },
}

export interface UserRow extends Account {
  id: Snowflake
}

/** One server of a user, with their roles there. */
export interface Membership {
  server_id: Snowflake
  roles: Snowflake[]
}

/** What is shown of a user, by whatever has it. */
type Listed = Pick<Readonly<UserRow>, "id" | "username" | "bot" | "badges">

export const shownUser = (row: Listed): ShownUser => ({
  id: row.id,
  username: row.username,
  avatar_url: avatarPath(row.id),
  badges: shownBadges(row.badges),
  bot: row.bot,
})

export const publicUser = (row: Listed & Pick<UserRow, "created_at">): PublicUser => ({
  ...shownUser(row),
  created_at: row.created_at,
})

/** What is shown of a user to themselves. */
export const ownUser = (user: Listed, account: OwnAccount): PrivateUser => ({
  id: user.id,
  username: user.username,
  avatar_url: avatarPath(user.id),
  badges: shownBadges(user.badges),
  bot: user.bot,
  created_at: account.created_at,
  email: account.email,
  email_verified: account.email_verified,
  totp_enabled: account.totp_enabled,
  age_verified: account.age_verified,
  deletion_status: account.deletion_status,
  deletion_at: account.deletion_at,
})

export const privateUser = (row: Listed & OwnAccount): PrivateUser => ownUser(row, row)

/** Everything an account has, as columns. */
const columns = {
  id: "bigint",
  username: "text",
  email: "text",
  password_hash: "text",
  created_at: "bigint",
  email_verified: "boolean",
  email_confirmed: "boolean",
  age_verified: "boolean",
  badges: "text[]",
  tier: "text",
  tier_expires_at: "bigint",
  tier_notes: "text",
  bot: "boolean",
  owner_id: "bigint",
  bot_permissions: "text[]",
  bot_public: "boolean",
  permissions: "text[]",
  locked_until: "bigint",
  lock_reason: "text",
  must_rename: "boolean",
  rename_reason: "text",
  deletion_status: "text",
  deletion_at: "bigint",
  totp_enabled: "boolean",
  totp_secret: "text",
  totp_step: "bigint",
  backup_codes: "text[]",
} satisfies Record<keyof UserRow, string>

const names = Object.keys(columns) as (keyof UserRow)[]
const definition = names.map(name => `${name} ${columns[name]}`).join(", ")
const rowsOf = (sql: Statements, rows: readonly UserRow[]) =>
  sql`jsonb_to_recordset(${JSON.stringify(rows)}::text::jsonb) AS u (${sql.unsafe(definition)})`

/** What an account is, out of something that has more. */
export const accountOf = (from: UserRow): UserRow =>
  Object.fromEntries(names.map(name => [name, from[name]])) as unknown as UserRow

const taken = { users_username: "user_exists", users_email: "user_exists" } as const

export const insertUser = defineWrite<UserRow>(
  "insertUser",
  (sql, rows) => sql`
    INSERT INTO users (${sql.unsafe(names.join(", "))})
    SELECT ${sql.unsafe(names.map(name => `u.${name}`).join(", "))} FROM ${rowsOf(sql, rows)}`,
  taken,
)

/** The whole account as it is from now on. */
export const updateUser = defineWrite<UserRow>(
  "updateUser",
  (sql, rows) => {
    // Of several changes of one user in a batch the last counts; PostgreSQL would take any.
    const last = lastOf(rows, row => row.id)
    return sql`
      UPDATE users SET ${sql.unsafe(names.map(name => `${name} = u.${name}`).join(", "))}
      FROM ${rowsOf(sql, last)} WHERE users.id = u.id`
  },
  taken,
)
/** It is no part of an account that is written whole: see `insertSession`. */
export const forgetLastLogin = defineWrite<{ user_id: Snowflake }>(
  "forgetLastLogin",
  (sql, rows) => sql`UPDATE users SET last_login = NULL WHERE id = ANY(${column(rows, "user_id")}::bigint[])`,
)

export const isOfAccount = ({ kind }: Write): boolean => kind.name === "updateUser"

/** One-time tokens by which an address may come back to its account. */
const isWayBack = (sql: Sql, email: string, now: number) =>
  sql`kind = 'restore_email' AND is_confirmed AND lower(email) = lower(${email}) AND expires_at > ${now}`

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

  /** By the whole name, ignoring case. Who has left for good is not found. */
  async findByName(name: string): Promise<UserRow | undefined> {
    const [row] = await sql<UserRow[]>`
      SELECT * FROM users WHERE lower(username) = lower(${name}) AND deletion_status <> 'purged'`
    return row
  },

  /** What users are called. */
  async namesOf(ids: readonly Snowflake[]): Promise<Map<Snowflake, string>> {
    // One value: to take a hundred rows apart would cost more than all else of the page.
    const [row] = await sql<{ names: Record<Snowflake, string> | null }[]>`
      SELECT json_object_agg(id, username) AS names FROM users WHERE id = ANY(${[...ids]}::bigint[])`
    return new Map(Object.entries(row!.names ?? {}))
  },

  /**
   * Who is told about a user's changes: users with a relationship to them (blocked or not), their
   * servers, and their conversations outside servers.
   */
  async onlookers(id: Snowflake): Promise<{ people: Snowflake[]; servers: Snowflake[]; directs: Snowflake[] }> {
    const [row] = await sql<{ people: Snowflake[]; servers: Snowflake[]; directs: Snowflake[] }[]>`
      SELECT ARRAY(SELECT user_id::text FROM relationships WHERE other_id = ${id} ORDER BY user_id) AS people,
             ARRAY(SELECT s.id::text FROM members m JOIN servers s ON s.id = m.server_id WHERE m.user_id = ${id} ORDER BY s.id) AS servers,
             ARRAY(SELECT id::text FROM direct_channels WHERE user_id = ${id} UNION ALL SELECT id::text FROM direct_channels WHERE other_id = ${id}) AS directs`
    return row!
  },

  /** @param now Unix seconds */
  async exists(username: string, email: string, now: number): Promise<boolean> {
    const [row] = await sql`
      SELECT 1 FROM users WHERE lower(username) = lower(${username}) OR lower(email) = lower(${email})
      UNION ALL SELECT 1 FROM one_time_tokens WHERE ${isWayBack(sql, email, now)} LIMIT 1`
    return row !== undefined
  },

  /**
   * Whether an address is somebody else's, or was so until a moment ago, so that it may come back to
   * them. One statement: in whatever moment they leave it, it is one or the other.
   */
  async isAddressTaken(email: string, user: Snowflake, now: number): Promise<boolean> {
    const [row] = await sql`
      SELECT 1 FROM users WHERE lower(email) = lower(${email}) AND id <> ${user}
      UNION ALL SELECT 1 FROM one_time_tokens WHERE ${isWayBack(sql, email, now)} AND user_id <> ${user} LIMIT 1`
    return row !== undefined
  },

  /** The user's home as it wakes. */
  async load(id: Snowflake): Promise<UserState | undefined> {
    const [[user], sessions, [presence], voice] = await Promise.all([
      sql<UserRow[]>`SELECT * FROM users WHERE id = ${id}`,
      sql<Session[]>`SELECT id, token_hash, created_at, expires_at FROM sessions WHERE user_id = ${id}`,
      sql<Shown[]>`SELECT status, custom_status, custom_emoji FROM presences WHERE user_id = ${id}`,
      voiceOfUser(sql, id),
    ])
    if (!user) return undefined
    return newUserState({
      account: accountOf(user),
      sessions: new Map(sessions.map(session => [session.id, session])),
      presence,
      ...voice,
    })
  },

  /** Where each of these users is a member. */
  async memberships(users: readonly Snowflake[]): Promise<Map<Snowflake, Membership[]>> {
    const rows = await sql<(Membership & { user_id: Snowflake })[]>`
      SELECT m.user_id, m.server_id, m.roles FROM members m JOIN servers s ON s.id = m.server_id
      WHERE m.user_id = ANY(${[...users]}::bigint[]) ORDER BY m.user_id, m.server_id`
    const found = new Map<Snowflake, Membership[]>()
    for (const { user_id, server_id, roles } of rows) {
      append(found, user_id, { server_id, roles })
    }
    return found
  },
})
