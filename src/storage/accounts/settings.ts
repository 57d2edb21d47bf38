import type { Snowflake } from "../../contract/core/fields.ts"
import type { Setting } from "../../contract/accounts/settings.ts"
import { focusKey, type KeptSetting } from "../../domain/accounts/settings.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    settings: {
      userColumns: ["user_id"],
      key: { user_id: "bigint", key: "text" },
      given: ["user_id", "key", "value", "created_at", "updated_at"],
      atPurge: "erased",
    },
  },
}

export interface SettingRow extends Setting {
  user_id: Snowflake
}

const settingKey = ({ user_id, key }: { user_id: Snowflake; key: string }) => `${user_id}:${key}`

export const putSetting = defineWrite<SettingRow>("putSetting", (sql, rows) => {
  const last = lastOf(rows, settingKey)
  return sql`
    INSERT INTO settings (user_id, key, value, created_at, updated_at)
    SELECT * FROM unnest(${column(last, "user_id")}::bigint[], ${column(last, "key")}::text[], ${column(last, "value")}::text[],
      ${column(last, "created_at")}::bigint[], ${column(last, "updated_at")}::bigint[])
    ON CONFLICT (user_id, key) DO UPDATE SET value = excluded.value, created_at = excluded.created_at, updated_at = excluded.updated_at`
})

export const deleteSetting = defineWrite<{ user_id: Snowflake; key: string }>(
  "deleteSetting",
  (sql, rows) => sql`
    DELETE FROM settings USING unnest(${column(rows, "user_id")}::bigint[], ${column(rows, "key")}::text[]) AS t (user_id, key)
    WHERE settings.user_id = t.user_id AND settings.key = t.key`,
)

export const settingsStorage = (sql: Sql) => ({
  /** Without what a client looks at. */
  async list(user: Snowflake): Promise<Pick<Setting, "key" | "value">[]> {
    return sql<Pick<Setting, "key" | "value">[]>`
      SELECT key, value FROM settings WHERE user_id = ${user} AND key <> ${focusKey} ORDER BY key`
  },

  async find(user: Snowflake, key: string): Promise<Setting | undefined> {
    const [row] = await sql<Setting[]>`
      SELECT key, value, created_at, updated_at FROM settings WHERE user_id = ${user} AND key = ${key}`
    return row
  },

  /** Every key, with when it was first and last written. */
  async keys(user: Snowflake): Promise<Map<string, KeptSetting>> {
    const rows = await sql<Pick<Setting, "key" | "created_at" | "updated_at">[]>`
      SELECT key, created_at, updated_at FROM settings WHERE user_id = ${user}`
    return new Map(rows.map(({ key, ...times }) => [key, times]))
  },

  /** What clients looked at before then. @returns how many */
  async forgetFocus(before: number, limit: number): Promise<number> {
    // The index is of this key alone, so the key has to stand in the statement itself.
    const isFocus = sql.unsafe(`key = '${focusKey}'`)
    const { count } = await sql`
      DELETE FROM settings WHERE (user_id, key) IN (
        SELECT user_id, key FROM settings WHERE ${isFocus} AND updated_at <= ${before} ORDER BY updated_at LIMIT ${limit})
        AND updated_at <= ${before}`
    return count
  },
})
