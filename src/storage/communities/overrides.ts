import type { Snowflake } from "../../contract/core/fields.ts"
import type { Override } from "../../domain/core/overrides.ts"
import { namesIn, type PermissionMask } from "../../domain/core/permission-masks.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql, Statement } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

const namesOf = (mask: unknown) => namesIn(Number(mask))

export const personalData: PersonalData = {
  personal: {
    channel_overrides: {
      userColumns: ["target_id"],
      key: { channel_id: "bigint", target_id: "bigint" },
      given: ["channel_id", "target_id", "server_id", "type", "allow", "deny"],
      givenAs: { allow: namesOf, deny: namesOf },
      atPurge: "ended",
    },
  },
}

export interface OverrideRow extends Override {
  channel_id: Snowflake
  server_id: Snowflake
}

/** The overrides of a channel as `saidOf` reads them. */
export interface ReadOverrides {
  readonly channel_id: Snowflake
  readonly said: readonly (readonly [Snowflake, Override["type"], allow: PermissionMask, deny: PermissionMask])[]
}

/**
 * One row for each channel, and lists without names in it: the overrides of a large server are half
 * as many bytes, and half of the work.
 */
export const saidOf = (sql: Sql, server: Statement) => sql`
  SELECT v.channel_id::text, json_agg(json_build_array(v.target_id::text, v.type, v.allow, v.deny) ORDER BY v.target_id) AS said
  FROM channel_overrides v WHERE v.server_id = ${server} GROUP BY v.channel_id`

export const overridesByChannel = (channels: readonly ReadOverrides[]): Map<Snowflake, readonly Override[]> =>
  new Map(
    channels.map(({ channel_id, said }) => [
      channel_id,
      said.map(([target_id, type, allow, deny]) => ({ target_id, type, allow, deny })),
    ]),
  )

export const putOverride = defineWrite<OverrideRow>("putOverride", (sql, rows) => {
  const last = lastOf(rows, row => `${row.channel_id}:${row.target_id}`)
  return sql`
    INSERT INTO channel_overrides (channel_id, target_id, server_id, type, allow, deny)
    SELECT * FROM unnest(${column(last, "channel_id")}::bigint[], ${column(last, "target_id")}::bigint[], ${column(last, "server_id")}::bigint[],
      ${column(last, "type")}::text[], ${column(last, "allow")}::bigint[], ${column(last, "deny")}::bigint[])
    ON CONFLICT (channel_id, target_id) DO UPDATE SET type = excluded.type, allow = excluded.allow, deny = excluded.deny`
})

export const deleteOverride = defineWrite<{ channel_id: Snowflake; target_id: Snowflake }>(
  "deleteOverride",
  (sql, rows) => sql`
    DELETE FROM channel_overrides USING unnest(${column(rows, "channel_id")}::bigint[], ${column(rows, "target_id")}::bigint[]) AS t (channel_id, target_id)
    WHERE channel_overrides.channel_id = t.channel_id AND channel_overrides.target_id = t.target_id`,
)
