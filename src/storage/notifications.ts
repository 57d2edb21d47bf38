import type { Snowflake } from "../contract/fields.ts"
import { limits } from "../contract/limits.ts"
import type { Notification } from "../contract/notifications.ts"
import type { Sql } from "./database.ts"
import { column, defineWrite } from "./write.ts"

export interface NotificationRow extends Notification {
  user_id: Snowflake
}

/** New ones; of a user who has too many then the oldest go. Both parts of the statement see what stood before it. */
export const insertNotification = defineWrite<NotificationRow>("insertNotification", (sql, rows) => {
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
    INSERT INTO notifications (id, user_id, type, title, content, content_preview, link, sender_id, read, created_at)
    SELECT * FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "user_id")}::bigint[], ${column(rows, "type")}::text[],
      ${column(rows, "title")}::text[], ${column(rows, "content")}::text[], ${column(rows, "content_preview")}::text[],
      ${column(rows, "link")}::text[], ${column(rows, "sender_id")}::bigint[], ${column(rows, "read")}::text[]::boolean[],
      ${column(rows, "created_at")}::bigint[])`
})

export const markNotificationRead = defineWrite<{ id: Snowflake }>(
  "markNotificationRead",
  (sql, rows) => sql`UPDATE notifications SET read = true WHERE id = ANY(${column(rows, "id")}::bigint[])`,
)

export const markAllNotificationsRead = defineWrite<{ user_id: Snowflake }>(
  "markAllNotificationsRead",
  (sql, rows) =>
    sql`UPDATE notifications SET read = true WHERE user_id = ANY(${column(rows, "user_id")}::bigint[]) AND NOT read`,
)

export const notificationsStorage = (sql: Sql) => ({
  /** Newest first. */
  async page(
    user: Snowflake,
    { limit, before, unread }: { limit: number; before?: Snowflake | undefined; unread: boolean },
  ): Promise<Notification[]> {
    return sql<Notification[]>`
      SELECT id, type, title, content, content_preview, read, created_at, link, sender_id FROM notifications
      WHERE user_id = ${user} AND id < ${before ?? "9223372036854775807"} ${unread ? sql`AND NOT read` : sql``}
      ORDER BY id DESC LIMIT ${limit}`
  },

  async unreadCount(user: Snowflake): Promise<number> {
    const [row] = await sql<{ count: number }[]>`
      SELECT count(*)::int AS count FROM notifications WHERE user_id = ${user} AND NOT read`
    return row!.count
  },

  /** Whether those of a user that are asked for are read. */
  async states(user: Snowflake, ids: readonly Snowflake[]): Promise<Map<Snowflake, { read: boolean }>> {
    const rows = await sql<{ id: Snowflake; read: boolean }[]>`
      SELECT id, read FROM notifications WHERE user_id = ${user} AND id = ANY(${[...ids]}::bigint[])`
    return new Map(rows.map(({ id, read }) => [id, { read }]))
  },
})
