import type { Snowflake } from "../../contract/core/fields.ts"
import type { Sql } from "../core/database.ts"

/** Accounts that programs use, each owned by a person. */
export const botsStorage = (sql: Sql) => ({
  /** Those of an owner that are not deleted, the oldest first. */
  async ownedBy(owner: Snowflake): Promise<{ id: Snowflake; username: string; hasToken: boolean }[]> {
    return sql<{ id: Snowflake; username: string; hasToken: boolean }[]>`
      SELECT id, username, EXISTS (SELECT 1 FROM sessions WHERE user_id = users.id) AS "hasToken" FROM users
      WHERE owner_id = ${owner} AND bot AND deletion_status = 'active' ORDER BY id`
  },
})
