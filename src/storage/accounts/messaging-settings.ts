import type { Snowflake } from "../../contract/core/fields.ts"
import type { MessagingChoice } from "../../contract/accounts/messaging-settings.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    messaging_settings: {
      userColumns: ["user_id"],
      key: { user_id: "bigint" },
      given: [
        "user_id",
        "read_receipts_enabled",
        "typing_indicators_enabled",
        "compact_messages_enabled",
        "allow_dms_from",
        "auto_create_dms",
      ],
      atPurge: "erased",
    },
  },
}

export interface MessagingRow extends MessagingChoice {
  user_id: Snowflake
}

export const putMessagingSettings = defineWrite<MessagingRow>("putMessagingSettings", (sql, rows) => {
  const last = lastOf(rows, row => row.user_id)
  return sql`
    INSERT INTO messaging_settings (user_id, read_receipts_enabled, typing_indicators_enabled, compact_messages_enabled, allow_dms_from, auto_create_dms)
    SELECT * FROM unnest(${column(last, "user_id")}::bigint[], ${column(last, "read_receipts_enabled")}::text[]::boolean[],
      ${column(last, "typing_indicators_enabled")}::text[]::boolean[], ${column(last, "compact_messages_enabled")}::text[]::boolean[],
      ${column(last, "allow_dms_from")}::text[], ${column(last, "auto_create_dms")}::text[]::boolean[])
    ON CONFLICT (user_id) DO UPDATE SET read_receipts_enabled = excluded.read_receipts_enabled,
      typing_indicators_enabled = excluded.typing_indicators_enabled, compact_messages_enabled = excluded.compact_messages_enabled,
      allow_dms_from = excluded.allow_dms_from, auto_create_dms = excluded.auto_create_dms`
})

export const messagingSettingsStorage = (sql: Sql) => ({
  /** Undefined: the user never decided. */
  async find(user: Snowflake): Promise<MessagingChoice | undefined> {
    const [row] = await sql<MessagingChoice[]>`
      SELECT read_receipts_enabled, typing_indicators_enabled, compact_messages_enabled, allow_dms_from, auto_create_dms
      FROM messaging_settings WHERE user_id = ${user}`
    return row
  },
})
