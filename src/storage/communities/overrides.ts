import type { Snowflake } from "../../contract/core/fields.ts"
import type { Override } from "../../domain/core/overrides.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    channel_overrides: {
      userColumns: ["target_id"],
      key: { channel_id: "bigint", target_id: "bigint" },
      given: ["channel_id", "target_id", "server_id", "type", "allow", "deny"],
      atPurge: "ended",
    },
  },
}

export interface OverrideRow extends Override {
  channel_id: Snowflake
  server_id: Snowflake
}

export const putOverride = defineWrite<OverrideRow>("putOverride", (sql, rows) => {
  const last = lastOf(rows, row => `${row.channel_id}:${row.target_id}`)
  return sql`
    INSERT INTO channel_overrides (channel_id, target_id, server_id, type, allow, deny)
    SELECT o.channel_id, o.target_id, o.server_id, o.type,
      ARRAY(SELECT jsonb_array_elements_text(o.allow::jsonb)), ARRAY(SELECT jsonb_array_elements_text(o.deny::jsonb))
    FROM unnest(${column(last, "channel_id")}::bigint[], ${column(last, "target_id")}::bigint[], ${column(last, "server_id")}::bigint[],
      ${column(last, "type")}::text[], ${last.map(row => JSON.stringify(row.allow))}::text[], ${last.map(row => JSON.stringify(row.deny))}::text[])
      AS o (channel_id, target_id, server_id, type, allow, deny)
    ON CONFLICT (channel_id, target_id) DO UPDATE SET type = excluded.type, allow = excluded.allow, deny = excluded.deny`
})

export const deleteOverride = defineWrite<{ channel_id: Snowflake; target_id: Snowflake }>(
  "deleteOverride",
  (sql, rows) => sql`
    DELETE FROM channel_overrides USING unnest(${column(rows, "channel_id")}::bigint[], ${column(rows, "target_id")}::bigint[]) AS t (channel_id, target_id)
    WHERE channel_overrides.channel_id = t.channel_id AND channel_overrides.target_id = t.target_id`,
)
