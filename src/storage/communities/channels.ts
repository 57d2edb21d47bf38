import type { Snowflake } from "../../contract/core/fields.ts"
import type { ChannelPlace } from "../../domain/core/control.ts"
import type { ChannelState } from "../../domain/core/channels.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  others: {
    channels: { why: "They are a server's" },
  },
}

export type ChannelRow = ChannelState

export const insertChannel = defineWrite<ChannelRow>(
  "insertChannel",
  (sql, rows) => sql`
    INSERT INTO channels (id, server_id, name, channel_type, topic, position, category_id, nsfw, slowmode_seconds, read_receipts_enabled,
      user_limit, bitrate, created_at)
    SELECT * FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "server_id")}::bigint[], ${column(rows, "name")}::text[],
      ${column(rows, "channel_type")}::text[], ${column(rows, "topic")}::text[], ${column(rows, "position")}::int[], ${column(rows, "category_id")}::bigint[],
      ${column(rows, "nsfw")}::text[]::boolean[], ${column(rows, "slowmode_seconds")}::int[], ${column(rows, "read_receipts_enabled")}::text[]::boolean[],
      ${column(rows, "user_limit")}::int[], ${column(rows, "bitrate")}::int[], ${column(rows, "created_at")}::bigint[])`,
)

export const updateChannel = defineWrite<ChannelRow>("updateChannel", (sql, rows) => {
  const last = lastOf(rows, row => row.id)
  return sql`
    UPDATE channels SET name = t.name, topic = t.topic, position = t.position, category_id = t.category_id, nsfw = t.nsfw,
      slowmode_seconds = t.slowmode_seconds, read_receipts_enabled = t.read_receipts_enabled, user_limit = t.user_limit, bitrate = t.bitrate
    FROM unnest(${column(last, "id")}::bigint[], ${column(last, "name")}::text[], ${column(last, "topic")}::text[], ${column(last, "position")}::int[],
      ${column(last, "category_id")}::bigint[], ${column(last, "nsfw")}::text[]::boolean[], ${column(last, "slowmode_seconds")}::int[],
      ${column(last, "read_receipts_enabled")}::text[]::boolean[], ${column(last, "user_limit")}::int[], ${column(last, "bitrate")}::int[])
      AS t (id, name, topic, position, category_id, nsfw, slowmode_seconds, read_receipts_enabled, user_limit, bitrate)
    WHERE channels.id = t.id`
})

interface PlaceRow extends ChannelPlace {
  id: Snowflake
}

export const placeChannel = defineWrite<PlaceRow>("placeChannel", (sql, rows) => {
  const last = lastOf(rows, row => row.id)
  return sql`
    UPDATE channels SET position = t.position, category_id = t.category_id
    FROM unnest(${column(last, "id")}::bigint[], ${column(last, "position")}::int[], ${column(last, "category_id")}::bigint[])
      AS t (id, position, category_id)
    WHERE channels.id = t.id`
})

/** The channel with its overrides and calls; its messages are purged by a job. */
export const deleteChannel = defineWrite<{ id: Snowflake }>(
  "deleteChannel",
  (sql, rows) => sql`DELETE FROM channels WHERE id = ANY(${column(rows, "id")}::bigint[])`,
)

/**
 * After the channel itself, so that nothing comes to what names it meanwhile: its webhooks go and
 * what its users set, invites lead to the server only.
 */
export const forgetChannel = defineWrite<{ id: Snowflake; server_id: Snowflake }>("forgetChannel", (sql, rows) => {
  const [ids, servers] = [column(rows, "id"), column(rows, "server_id")]
  return sql`
    WITH hooks AS (DELETE FROM webhooks WHERE channel_id = ANY(${ids}::bigint[])),
      set AS (DELETE FROM notification_settings WHERE channel_id = ANY(${ids}::bigint[]))
    UPDATE invites SET channel_id = NULL WHERE server_id = ANY(${servers}::bigint[]) AND channel_id = ANY(${ids}::bigint[])`
})

export const channelsStorage = (sql: Sql) => ({
  /** The home that a channel lives in. */
  async homeOf(channel: Snowflake): Promise<Snowflake | undefined> {
    const [row] = await sql<{ home: Snowflake }[]>`
      SELECT server_id AS home FROM channels WHERE id = ${channel} UNION ALL SELECT id FROM direct_channels WHERE id = ${channel}`
    return row?.home
  },

  async ofServer(server: Snowflake): Promise<Snowflake[]> {
    const rows = await sql<{ id: Snowflake }[]>`SELECT id FROM channels WHERE server_id = ${server} ORDER BY id`
    return rows.map(({ id }) => id)
  },
})
