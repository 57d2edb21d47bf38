import type { Snowflake } from "../../contract/core/fields.ts"
import { choiceKey, type NotificationChoice } from "../../domain/accounts/notification-levels.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql, Statements } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    notification_settings: {
      userColumns: ["user_id"],
      key: { user_id: "bigint", server_id: "bigint", channel_id: "bigint" },
      given: ["user_id", "server_id", "channel_id", "level", "muted", "muted_until"],
      atPurge: "erased",
    },
  },
}

/**
 * `channel_id` is null where a choice is about the server as a whole; the table says 0. `server_id`
 * "0": outside servers.
 */
interface ChoiceKey {
  user_id: Snowflake
  server_id: Snowflake
  channel_id: Snowflake | null
}
type ChoiceRow = ChoiceKey & NotificationChoice

const rowKey = ({ user_id, server_id, channel_id }: ChoiceKey) => `${user_id} ${choiceKey(server_id, channel_id)}`
const channels = (rows: readonly ChoiceKey[]) => rows.map(({ channel_id }) => channel_id ?? "0")

/**
 * Other homes decide who is a member and which channels exist. Both rows are locked until this is
 * committed, so that a transaction that ends them finds this row, or this row is not written. What
 * is being deleted counts as deleted, and this does not wait for it: the deleting transaction waits
 * for these rows.
 */
const isThere = (sql: Statements) => sql`
  CASE t.server_id
    WHEN 0 THEN EXISTS (SELECT FROM direct_channels d WHERE d.id = t.channel_id FOR KEY SHARE SKIP LOCKED)
    ELSE EXISTS (SELECT FROM members m WHERE m.server_id = t.server_id AND m.user_id = t.user_id FOR KEY SHARE SKIP LOCKED)
      AND (t.channel_id = 0 OR EXISTS (SELECT FROM channels c WHERE c.id = t.channel_id FOR KEY SHARE SKIP LOCKED))
  END`

export const putNotificationChoice = defineWrite<ChoiceRow>("putNotificationChoice", (sql, rows) => {
  const last = lastOf(rows, rowKey)
  return sql`
    INSERT INTO notification_settings (user_id, server_id, channel_id, level, muted, muted_until)
    SELECT t.user_id, t.server_id, t.channel_id, t.level, t.muted, t.muted_until
    FROM unnest(${column(last, "user_id")}::bigint[], ${column(last, "server_id")}::bigint[], ${channels(last)}::bigint[],
      ${column(last, "level")}::text[], ${column(last, "muted")}::text[]::boolean[], ${column(last, "muted_until")}::bigint[])
      AS t (user_id, server_id, channel_id, level, muted, muted_until)
    WHERE ${isThere(sql)}
    ON CONFLICT (user_id, server_id, channel_id) DO UPDATE SET level = excluded.level, muted = excluded.muted, muted_until = excluded.muted_until`
})

export const dropNotificationChoice = defineWrite<ChoiceKey>("dropNotificationChoice", (sql, rows) => {
  const last = lastOf(rows, rowKey)
  return sql`
    DELETE FROM notification_settings n
    USING unnest(${column(last, "user_id")}::bigint[], ${column(last, "server_id")}::bigint[], ${channels(last)}::bigint[]) AS t (user_id, server_id, channel_id)
    WHERE n.user_id = t.user_id AND n.server_id = t.server_id AND n.channel_id = t.channel_id AND ${isThere(sql)}`
})

/** With the end of a membership; after the row of the membership itself. */
export const deleteNotificationSettings = defineWrite<{ user_id: Snowflake; server_id: Snowflake }>(
  "deleteNotificationSettings",
  (sql, rows) => sql`
    DELETE FROM notification_settings n
    USING unnest(${column(rows, "user_id")}::bigint[], ${column(rows, "server_id")}::bigint[]) AS t (user_id, server_id)
    WHERE n.user_id = t.user_id AND n.server_id = t.server_id`,
)

type StoredChoice = Omit<ChoiceRow, "user_id">

const byKey = (rows: readonly StoredChoice[]): Map<string, NotificationChoice> =>
  new Map(rows.map(({ server_id, channel_id, ...choice }) => [choiceKey(server_id, channel_id), choice]))

export const notificationSettingsStorage = (sql: Sql) => ({
  /** All choices of a user, by `choiceKey`. */
  async ofUser(user: Snowflake): Promise<Map<string, NotificationChoice>> {
    return byKey(
      await sql<StoredChoice[]>`
        SELECT server_id, nullif(channel_id, 0) AS channel_id, level, muted, muted_until FROM notification_settings
        WHERE user_id = ${user} ORDER BY server_id, notification_settings.channel_id`,
    )
  },

  /** Those that matter for a server and one of its channels. */
  async find(user: Snowflake, server: Snowflake, channel: Snowflake | null): Promise<Map<string, NotificationChoice>> {
    return byKey(
      await sql<StoredChoice[]>`
        SELECT server_id, nullif(channel_id, 0) AS channel_id, level, muted, muted_until FROM notification_settings
        WHERE user_id = ${user} AND server_id = ${server} AND channel_id = ANY(${["0", channel ?? "0"]}::bigint[])`,
    )
  },
})
