import type { Snowflake } from "../../contract/core/fields.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  others: {
    pins: { why: "Which messages are pinned; these say so themselves" },
  },
}

/** `pinned_at`: Unix milliseconds; null: not any more. */
export const setPinned = defineWrite<{ channel_id: Snowflake; id: Snowflake; pinned_at: number | null }>(
  "setPinned",
  (sql, rows) => {
    const last = lastOf(rows, row => `${row.channel_id}:${row.id}`)
    // What was deleted meanwhile, by another row of the batch, is pinned no more.
    return sql`
      WITH pinned AS (
      UPDATE messages SET pinned_at = t.pinned_at
      FROM unnest(${column(last, "channel_id")}::bigint[], ${column(last, "id")}::bigint[], ${column(last, "pinned_at")}::bigint[]) AS t (channel_id, id, pinned_at)
      WHERE messages.channel_id = t.channel_id AND messages.id = t.id AND NOT messages.deleted
      RETURNING t.channel_id, t.id, t.pinned_at),
      unpinned AS (
        DELETE FROM pins USING pinned WHERE pins.channel_id = pinned.channel_id AND pins.message_id = pinned.id AND pinned.pinned_at IS NULL)
      INSERT INTO pins (channel_id, message_id, pinned_at)
      SELECT channel_id, id, pinned_at FROM pinned WHERE pinned_at IS NOT NULL
      ON CONFLICT (channel_id, message_id) DO UPDATE SET pinned_at = excluded.pinned_at`
  },
)
