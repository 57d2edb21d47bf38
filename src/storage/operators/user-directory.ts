import type { Snowflake } from "../../contract/core/fields.ts"
import type { Account } from "../../domain/accounts/accounts.ts"
import { loginKeyOf } from "../../domain/accounts/failed-logins.ts"
import type { Sql } from "../core/database.ts"
import { escaped } from "../messages/search.ts"

/** What operators see of an account in a list. */
export interface ListedAccount extends Pick<
  Account,
  | "username"
  | "tier"
  | "tier_expires_at"
  | "badges"
  | "created_at"
  | "bot"
  | "deletion_status"
  | "deletion_at"
  | "locked_until"
> {
  readonly id: Snowflake
  /** Whether an address is kept; it is shown to nobody. */
  readonly has_email: boolean
}

/** What operators see of one account. */
export interface KnownAccount
  extends
    ListedAccount,
    Pick<Account, "owner_id" | "permissions" | "lock_reason" | "must_rename" | "rename_reason" | "totp_enabled"> {
  readonly last_login: number | null
  /** After failed sign-ins; 0: never. */
  readonly login_locked_until: number
  readonly sessions: number
  readonly owned_servers: number
  readonly bots: number
}

/** Accounts of the first look: the newest. What occurs often is found there. */
const firstLook = 5_000
/** Trigrams of a shorter text are in no index. */
const shortest = 3

/** Accounts as operators look for them. */
export const userDirectoryStorage = (sql: Sql) => {
  const listed = () =>
    sql`id, username, email IS NOT NULL AS has_email, tier, tier_expires_at, badges, created_at, bot, deletion_status, deletion_at, locked_until`
  return {
    /** Those with this text in their name, in any case; the newest first. */
    async search(text: string, { limit, offset }: { limit: number; offset: number }): Promise<ListedAccount[]> {
      const like = `%${escaped(text)}%`
      const found = await sql<ListedAccount[]>`
        SELECT ${listed()} FROM (SELECT * FROM users ORDER BY id DESC LIMIT ${firstLook}) AS newest
        WHERE lower(username) LIKE lower(${like}::text) ORDER BY id DESC LIMIT ${limit} OFFSET ${offset}`
      if (found.length === limit) return found
      // From here on there are few among the newest: the index finds them all. Without it they are
      // looked for from the newest on, for as long as a statement may take.
      if (text.length < shortest)
        return sql<ListedAccount[]>`
          SELECT ${listed()} FROM users WHERE lower(username) LIKE lower(${like}::text) ORDER BY id DESC LIMIT ${limit} OFFSET ${offset}`
      return sql<ListedAccount[]>`
        SELECT * FROM (SELECT ${listed()} FROM users WHERE lower(username) LIKE lower(${like}::text) OFFSET 0) AS found
        ORDER BY id DESC LIMIT ${limit} OFFSET ${offset}`
    },

    async find(id: Snowflake): Promise<KnownAccount | undefined> {
      const [row] = await sql<KnownAccount[]>`
        SELECT ${listed()}, owner_id, permissions, lock_reason, must_rename, rename_reason, totp_enabled, last_login,
          coalesce((SELECT locked_until FROM failed_logins WHERE name = ${loginKeyOf(id)}), 0) AS login_locked_until,
          (SELECT count(*)::int FROM sessions WHERE user_id = users.id) AS sessions,
          (SELECT count(*)::int FROM servers WHERE owner_id = users.id) AS owned_servers,
          (SELECT count(*)::int FROM users AS b WHERE b.owner_id = users.id AND b.bot AND b.deletion_status = 'active') AS bots
        FROM users WHERE id = ${id}`
      return row
    },

    /** Those that are to be purged, the soonest first. */
    async scheduled(limit: number): Promise<{ id: Snowflake; username: string; deletion_at: number }[]> {
      return sql<{ id: Snowflake; username: string; deletion_at: number }[]>`
        SELECT id, username, deletion_at FROM users WHERE deletion_status = 'frozen' ORDER BY deletion_at, id LIMIT ${limit}`
    },
  }
}
