import { z } from "zod"
import { queryFlag, queryInt, Seconds, Snowflake, Success } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineEvent, defineRoute } from "../core/registry.ts"

export const Notification = z
  .object({
    id: Snowflake,
    type: z
      .string()
      .describe("`mention`; later also message, friend_request, server_invite, reaction, system")
      .meta({ example: "mention" }),
    title: z.string(),
    content: z.string(),
    content_preview: z.string().nullable(),
    read: z.boolean(),
    created_at: Seconds,
    link: z.string().nullable().describe("`/channels/<server or @me>/<channel>/<message>`"),
    sender_id: Snowflake.nullable(),
  })
  .meta({ id: "NotificationResponse" })
export type Notification = z.infer<typeof Notification>

export const listNotifications = defineRoute({
  method: "GET",
  path: "/users/@me/notifications",
  summary: `List the caller's notifications, newest first. At most ${limits.notificationsKept} are kept per user`,
  tag: "Notifications",
  auth: "user",
  query: z.object({
    limit: queryInt(1, limits.pageSize).optional(),
    unread_only: queryFlag.optional(),
    before: Snowflake.optional().describe("Only notifications with lower ids"),
  }),
  reply: z
    .object({
      notifications: z.array(Notification),
      unread_count: z.int().describe("Of all notifications, not only of this page"),
    })
    .meta({ id: "NotificationListResponse" }),
  fails: [],
})

export const readAllNotifications = defineRoute({
  method: "PUT",
  path: "/users/@me/notifications/read-all",
  summary: "Mark all notifications as read",
  tag: "Notifications",
  auth: "user",
  reply: Success,
  fails: [],
})

export const readNotification = defineRoute({
  method: "PUT",
  path: "/users/@me/notifications/:notification_id/read",
  summary: "Mark one notification as read",
  tag: "Notifications",
  auth: "user",
  params: z.object({ notification_id: Snowflake }),
  reply: Success,
  fails: ["invalid_notification_id", "notification_not_found"],
})

export const routes = { listNotifications, readAllNotifications, readNotification }

export const notificationCreate = defineEvent({
  name: "NOTIFICATION_CREATE",
  intent: null,
  delivery: "stored",
  summary: "The user has a new notification",
  data: Notification,
})

export const notificationUpdate = defineEvent({
  name: "NOTIFICATION_UPDATE",
  intent: null,
  delivery: "stored",
  summary: "The user has read one notification (`id`), several (`ids`), or all (`all_read`)",
  data: z.union([
    z.object({ id: Snowflake, read: z.literal(true) }),
    z.object({
      ids: z.array(Snowflake).describe("Several, marked as read by an acknowledgement"),
      read: z.literal(true),
    }),
    z.object({ all_read: z.literal(true) }),
  ]),
})
