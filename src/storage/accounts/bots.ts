import type { Bot } from "../../contract/accounts/bots.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { publicUser, type UserRow } from "./users.ts"
import type { Sql, Statement, Statements } from "../core/database.ts"

/** Accounts that programs use, each owned by a person. */
export interface BotRow extends Pick<
  UserRow,
  "id" | "username" | "bot" | "badges" | "created_at" | "bot_permissions" | "bot_public"
> {
  owner_id: Snowflake
  has_token: boolean
}

/** What is shown of a bot to its owner. */
export const ownBot = (row: BotRow): Bot => ({
  ...publicUser(row),
  owner_id: row.owner_id,
  permissions: [...row.bot_permissions],
  public: row.bot_public,
  has_token: row.has_token,
})

/**
 * Whose quotas somebody uses: a bot those of its owner, so that somebody with many bots has no more
 * than without. `user` is an expression.
 */
export const quotaHolder = (sql: Statements, user: Statement): Statement =>
  sql`coalesce((SELECT holder.owner_id FROM users AS holder WHERE holder.id = ${user}), ${user})`

const columns = (sql: Sql) => sql`
  u.id, u.username, u.bot, u.badges, u.created_at, u.owner_id, u.bot_permissions, u.bot_public,
  EXISTS (SELECT 1 FROM sessions s WHERE s.user_id = u.id) AS has_token`

export const botsStorage = (sql: Sql) => ({
  /** The bots of an owner that are not deleted, the oldest first: `limits.botsPerOwner` at most. */
  async list(owner: Snowflake): Promise<BotRow[]> {
    return sql<BotRow[]>`
      SELECT ${columns(sql)} FROM users u WHERE u.owner_id = ${owner} AND u.bot AND u.deletion_status = 'active' ORDER BY u.id`
  },

  /** A bot that is not deleted, with who owns it; not `is_active`: one of the two is locked, or its owner is about to be deleted. */
  async find(bot: Snowflake): Promise<(BotRow & { owner_name: string; is_active: boolean }) | undefined> {
    const [row] = await sql<(BotRow & { owner_name: string; is_active: boolean })[]>`
      SELECT ${columns(sql)}, o.username AS owner_name,
        o.deletion_status = 'active' AND GREATEST(o.locked_until, u.locked_until) <= extract(epoch FROM now()) AS is_active
      FROM users u JOIN users o ON o.id = u.owner_id WHERE u.id = ${bot} AND u.bot AND u.deletion_status = 'active'`
    return row
  },

  /** Those of an owner that are not deleted, the oldest first. */
  async ownedBy(owner: Snowflake): Promise<{ id: Snowflake; username: string; hasToken: boolean }[]> {
    return sql<{ id: Snowflake; username: string; hasToken: boolean }[]>`
      SELECT id, username, EXISTS (SELECT 1 FROM sessions WHERE user_id = users.id) AS "hasToken" FROM users
      WHERE owner_id = ${owner} AND bot AND deletion_status = 'active' ORDER BY id`
  },
})
