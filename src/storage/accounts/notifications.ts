import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { Notification } from "../../contract/accounts/notifications.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    notifications: {
      userColumns: ["user_id"],
      key: { id: "bigint" },
      given: [
        "id",
        "user_id",
        "type",
        "title",
        "content",
        "content_preview",
        "link",
        "sender_id",
        "read",
        "created_at",
        "channel_id",
        "message_id",
      ],
      othersRows: { sender_id: "What others were told because of this person is in their lists" },
      atPurge: "erased",
    },
  },
}

export interface NotificationRow extends Notification {
  user_id: Snowflake
  channel_id?: Snowflake
  message_id?: Snowflake
}

/** Key of what a notification is about, among those of its user. */
export const noticeKey = (channel: Snowflake, message: Snowflake) => `${channel}:${message}`

/**
 * New ones; of a user who has too many then the oldest go. Both parts of the statement see what
 * stood before it.
 */
export const insertNotification = defineWrite<NotificationRow>(
  "insertNotification",
  (sql, rows) => {
    const added = new Map<Snowflake, number>()
    for (const { user_id } of rows) added.set(user_id, (added.get(user_id) ?? 0) + 1)
    const users = [...added].map(([user_id, count]) => ({
      user_id,
      left: Math.max(0, limits.notificationsKept - count),
    }))
    return sql`
    WITH surplus AS (
      DELETE FROM notifications n USING unnest(${column(users, "user_id")}::bigint[], ${column(users, "left")}::int[]) AS u (user_id, remaining)
      WHERE n.user_id = u.user_id AND n.id <= (
        SELECT id FROM notifications WHERE user_id = u.user_id ORDER BY id DESC OFFSET u.remaining LIMIT 1))
    INSERT INTO notifications (id, user_id, type, title, content, content_preview, link, sender_id, read, created_at, channel_id, message_id)
    SELECT * FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "user_id")}::bigint[], ${column(rows, "type")}::text[],
      ${column(rows, "title")}::text[], ${column(rows, "content")}::text[], ${column(rows, "content_preview")}::text[],
      ${column(rows, "link")}::text[], ${column(rows, "sender_id")}::bigint[], ${column(rows, "read")}::text[]::boolean[],
      ${column(rows, "created_at")}::bigint[], ${column(rows, "channel_id")}::bigint[], ${column(rows, "message_id")}::bigint[])`
  },
  { notifications_message: "again" },
)

export const markNotificationsRead = defineWrite<{ ids: readonly Snowflake[] }>(
  "markNotificationsRead",
  (sql, rows) => sql`UPDATE notifications SET read = true WHERE id = ANY(${rows.flatMap(({ ids }) => ids)}::bigint[])`,
)

export const markAllNotificationsRead = defineWrite<{ user_id: Snowflake }>(
  "markAllNotificationsRead",
  (sql, rows) =>
    sql`UPDATE notifications SET read = true WHERE user_id = ANY(${column(rows, "user_id")}::bigint[]) AND NOT read`,
)

/**
 * Those of `notifications n` that say nothing of a message that is gone. With OFFSET each is one
 * look into an index, however many PostgreSQL expects: it makes no list of all messages.
 */
const isShown = (sql: Sql) => sql`(n.message_id IS NULL OR EXISTS (
  SELECT FROM messages x WHERE x.channel_id = n.channel_id AND x.id = n.message_id AND NOT x.deleted OFFSET 0))`

export const notificationsStorage = (sql: Sql) => ({
  /** Newest first. */
  async page(
    user: Snowflake,
    { limit, before, unread }: { limit: number; before?: Snowflake | undefined; unread: boolean },
  ): Promise<Notification[]> {
    return sql<Notification[]>`
      SELECT id, type, title, content, content_preview, read, created_at, link, sender_id FROM notifications n
      WHERE user_id = ${user} AND id < ${before ?? "9223372036854775807"} ${unread ? sql`AND NOT read` : sql``} AND ${isShown(sql)}
      ORDER BY id DESC LIMIT ${limit}`
  },

  /**
   * Deletes some of what people were notified of in channels that are gone. @returns how many rows
   */
  async purge(channels: readonly Snowflake[], limit: number): Promise<number> {
    const { count } = await sql`
      DELETE FROM notifications WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM notifications WHERE channel_id = ANY(${[...channels]}::bigint[]) AND message_id IS NOT NULL LIMIT ${limit}))`
    return count
  },

  async unreadCount(user: Snowflake): Promise<number> {
    const [row] = await sql<{ count: number }[]>`
      SELECT count(*)::int AS count FROM notifications n WHERE user_id = ${user} AND NOT read AND ${isShown(sql)}`
    return row!.count
  },

  /** Unread ones about messages of a channel, up to one of them. */
  async unreadIn(user: Snowflake, channel: Snowflake, upto: Snowflake): Promise<Snowflake[]> {
    const rows = await sql<{ id: Snowflake }[]>`
      SELECT id FROM notifications WHERE user_id = ${user} AND channel_id = ${channel} AND message_id <= ${upto} AND NOT read ORDER BY id`
    return rows.map(({ id }) => id)
  },

  /** Which of these messages a user was notified of, by `noticeKey`. */
  async about(
    user: Snowflake,
    messages: readonly { channel: Snowflake; message: Snowflake }[],
  ): Promise<Map<string, true>> {
    const channels = messages.map(({ channel }) => channel),
      ids = messages.map(({ message }) => message)
    const rows = await sql<{ channel_id: Snowflake; message_id: Snowflake }[]>`
      SELECT n.channel_id, n.message_id FROM unnest(${channels}::bigint[], ${ids}::bigint[]) AS k (channel_id, message_id)
      JOIN notifications n ON n.user_id = ${user} AND n.channel_id = k.channel_id AND n.message_id = k.message_id`
    return new Map(rows.map(({ channel_id, message_id }) => [noticeKey(channel_id, message_id), true]))
  },

  /** Whether those of a user that are asked for are read. */
  async states(user: Snowflake, ids: readonly Snowflake[]): Promise<Map<Snowflake, { read: boolean }>> {
    const rows = await sql<{ id: Snowflake; read: boolean }[]>`
      SELECT id, read FROM notifications n WHERE user_id = ${user} AND id = ANY(${[...ids]}::bigint[]) AND ${isShown(sql)}`
    return new Map(rows.map(({ id, read }) => [id, { read }]))
  },
})
