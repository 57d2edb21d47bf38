import type { Snowflake } from "../../contract/core/fields.ts"
import { newDirectState, type DirectRow } from "../../domain/social/directs.ts"
import { compareIds } from "../../domain/core/snowflake.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql, Statement } from "../core/database.ts"
import type { UserRow } from "../accounts/users.ts"
import { column, defineWrite } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    direct_channels: {
      userColumns: ["user_id", "other_id"],
      key: { id: "bigint" },
      given: ["id", "channel_type", "user_id", "other_id", "created_at"],
      // Except for those that nobody can read any more: they are deleted with their messages.
      atPurge: "kept",
    },
  },
}

/** Where one exists already the command fails with `direct_exists`: the caller looks it up. */
export const insertDirect = defineWrite<DirectRow>(
  "insertDirect",
  (sql, rows) => sql`
    INSERT INTO direct_channels (id, channel_type, user_id, other_id, created_at)
    SELECT * FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "channel_type")}::text[], ${column(rows, "user_id")}::bigint[],
      ${column(rows, "other_id")}::bigint[], ${column(rows, "created_at")}::bigint[])`,
  { direct_channels_pair: "direct_exists" },
)

/** A DM with whom one of the two has it. */
interface ListedDirect extends DirectRow, Pick<UserRow, "username" | "bot" | "badges"> {
  recipient_id: Snowflake
  registered_at: number
  last_message_id: Snowflake | null
}

/** One look into the index of messages for each conversation. */
const latest = (sql: Sql, channel: Statement) => sql`
  SELECT m.id FROM messages m WHERE m.channel_id = ${channel} AND NOT m.deleted ORDER BY m.id DESC LIMIT 1`

export const directsStorage = (sql: Sql) => ({
  /** The conversation's home as it wakes. */
  async load(id: Snowflake): Promise<ServerState | undefined> {
    const [row] = await sql<DirectRow[]>`SELECT * FROM direct_channels WHERE id = ${id}`
    return row && newDirectState(row)
  },

  /** At most so many of a user's DMs, the one with the newest message first. */
  async list(user: Snowflake, limit: number): Promise<ListedDirect[]> {
    return sql<ListedDirect[]>`
      SELECT own.*, u.username, u.bot, u.badges, u.created_at AS registered_at
      FROM (
        SELECT d.*, latest.id AS last_message_id
        FROM (SELECT *, other_id AS recipient_id FROM direct_channels WHERE user_id = ${user} AND other_id IS NOT NULL
          UNION ALL SELECT *, user_id FROM direct_channels WHERE other_id = ${user}) AS d
        LEFT JOIN LATERAL (${latest(sql, sql`d.id`)}) AS latest ON true
        ORDER BY coalesce(latest.id, d.id) DESC LIMIT ${limit}) AS own
      JOIN users u ON u.id = own.recipient_id
      ORDER BY coalesce(own.last_message_id, own.id) DESC`
  },

  /** The newest message of a conversation. */
  async latestIn(id: Snowflake): Promise<Snowflake | null> {
    const [row] = await sql<{ id: Snowflake }[]>`${latest(sql, sql`${id}`)}`
    return row?.id ?? null
  },

  /** The DM of two; with null the notes of one. */
  async find(one: Snowflake, other: Snowflake | null): Promise<DirectRow | undefined> {
    const [lower, higher] = other !== null && compareIds(other, one) < 0 ? [other, one] : [one, other ?? "0"]
    const [row] = await sql<DirectRow[]>`
      SELECT * FROM direct_channels WHERE user_id = ${lower} AND coalesce(other_id, 0) = ${higher}`
    return row
  },
})
