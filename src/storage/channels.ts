import type { Snowflake } from "../contract/fields.ts"
import type { ChannelState } from "../domain/states.ts"
import type { Sql } from "./database.ts"
import { column, defineWrite } from "./write.ts"

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

export const channelsStorage = (sql: Sql) => ({
  /** The home that a channel lives in. */
  async homeOf(channel: Snowflake): Promise<Snowflake | undefined> {
    const [row] = await sql<{ server_id: Snowflake }[]>`SELECT server_id FROM channels WHERE id = ${channel}`
    return row?.server_id
  },

  async ofServer(server: Snowflake): Promise<Snowflake[]> {
    const rows = await sql<{ id: Snowflake }[]>`SELECT id FROM channels WHERE server_id = ${server} ORDER BY id`
    return rows.map(({ id }) => id)
  },
})
