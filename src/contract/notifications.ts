import { z } from "zod"
import { queryFlag, queryInt, Seconds, Snowflake, Success } from "./fields.ts"
import { limits } from "./limits.ts"
import { defineEvent, defineRoute } from "./registry.ts"

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
  summary: `What the caller was notified of, newest first. Of one user ${limits.notificationsKept} are kept`,
  tag: "Notifications",
  auth: "user",
  query: z.object({
    limit: queryInt(1, limits.pageSize).optional(),
    unread_only: queryFlag.optional(),
    before: Snowflake.optional().describe("Ids below this one"),
  }),
  reply: z
    .object({ notifications: z.array(Notification), unread_count: z.int().describe("Of all, not only of this page") })
    .meta({ id: "NotificationListResponse" }),
  fails: [],
})

export const readAllNotifications = defineRoute({
  method: "PUT",
  path: "/users/@me/notifications/read-all",
  summary: "Mark everything that there is as read",
  tag: "Notifications",
  auth: "user",
  reply: Success,
  fails: [],
})

export const readNotification = defineRoute({
  method: "PUT",
  path: "/users/@me/notifications/:notification_id/read",
  summary: "Mark one as read",
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
  summary: "The user is notified of something",
  data: Notification,
})

export const notificationUpdate = defineEvent({
  name: "NOTIFICATION_UPDATE",
  intent: null,
  delivery: "stored",
  summary: "The user has read one of his notifications (`id`), many (`ids`), or all that there were (`all_read`)",
  data: z.union([
    z.object({ id: Snowflake, read: z.literal(true) }),
    z.object({ ids: z.array(Snowflake).describe("Many that an acknowledgement has read"), read: z.literal(true) }),
    z.object({ all_read: z.literal(true) }),
  ]),
})
