import type { Snowflake } from "../../contract/core/fields.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { PinsState } from "../../domain/messages/pins.ts"
import { limits } from "../../contract/core/limits.ts"
import type { Sql, Statement } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"
import { messagesWithin, type MessagesWithin } from "./message-rows.ts"

export const personalData: Pick<PersonalData, "others"> = {
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

/** The place of a pin among those of its channel. `pinned_at`: Unix milliseconds. */
export interface PinPlace {
  readonly pinned_at: number
  readonly id: Snowflake
}

/** `fields`: what a `MessageState` has, of `messages m` and `users u`. */
export const pinReads = (sql: Sql, fields: Statement) => ({
  /** The latest pin first, those behind `after`, and no more of them than have `maxBytes`. */
  pinned: (
    channel: Snowflake,
    limit: number,
    after?: PinPlace,
    maxBytes: number = limits.messagesPageBytes,
  ): Promise<MessagesWithin> =>
    messagesWithin(
      sql,
      maxBytes,
      sql`SELECT ${fields} FROM pins p JOIN messages m ON m.channel_id = ${channel} AND m.id = p.message_id LEFT JOIN users u ON u.id = m.author_id
        WHERE p.channel_id = ${channel} AND NOT m.deleted
          AND (p.pinned_at, p.message_id) < (${after?.pinned_at ?? "9223372036854775807"}::bigint, ${after?.id ?? "9223372036854775807"}::bigint)
        ORDER BY p.pinned_at DESC, p.message_id DESC LIMIT ${limit}`,
      "ORDER BY pinned_at DESC, id DESC",
    ),

  async pins(channel: Snowflake): Promise<PinsState> {
    const [row] = await sql<PinsState[]>`
      SELECT count(*)::int AS count, coalesce(max(pinned_at), 0) AS latest FROM pins WHERE channel_id = ${channel}`
    return row!
  },
})
