import { z } from "zod"
import { omittable, Snowflake } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineEvent, defineRoute } from "../core/registry.ts"

export const NotificationLevel = z.enum(["all", "mentions", "nothing"])
export type NotificationLevel = z.infer<typeof NotificationLevel>

/** The end of the year 9999. */
const latest = 253_402_300_799

export const NotificationPatch = z
  .object({
    level: omittable(z.enum([...NotificationLevel.options, "default"])).describe(
      "`default`: a server uses its own default, a channel uses the caller's level for its server",
    ),
    muted: omittable(z.boolean()).describe("Without `muted_until` the mute has no end"),
    muted_until: omittable(z.int().min(0).max(latest)).describe(
      "When the mute ends, as Unix time in seconds. 0: no end. Sets `muted` if that is not given",
    ),
  })
  .meta({ id: "NotificationSettingsRequest" })
export type NotificationPatch = z.output<typeof NotificationPatch>

export const NotificationSettings = z
  .object({
    server_id: Snowflake.nullable().describe("Null for a DM"),
    guild_id: Snowflake.nullable(),
    channel_id: Snowflake.nullable().describe("Null for the whole server"),
    level: NotificationLevel.nullable().describe("Null if the user has not chosen a level here"),
    muted: z.boolean(),
    muted_until: z.int().describe("Unix time in seconds. 0: no end, or not muted"),
    effective: z
      .object({ level: NotificationLevel, muted: z.boolean() })
      .describe(
        "The effective level: that of the channel, else the caller's level for the server, else the default of the server (`all` in DMs). A muted server mutes its channels",
      ),
  })
  .meta({ id: "NotificationSettingsResponse" })
export type NotificationSettings = z.infer<typeof NotificationSettings>

/** Without what holds in the end, which the server's own level decides, too. */
export const NotificationChoice = NotificationSettings.omit({ effective: true }).meta({
  id: "NotificationChoiceResponse",
})
export type NotificationChoice = z.infer<typeof NotificationChoice>

const byServer = z.object({ server_id: Snowflake })
const byChannel = z.object({ channel_id: Snowflake })

export const listNotificationSettings = defineRoute({
  method: "GET",
  path: "/users/@me/notification-settings",
  summary: `List the levels and mutes that the caller has set, by server and channel: at most ${limits.notificationSettings}. What they have not set, and mutes that are over, are not listed. A muted server mutes its channels`,
  tag: "Notifications",
  auth: "user",
  reply: z.array(NotificationChoice),
  fails: [],
})

export const getServerNotificationSettings = defineRoute({
  method: "GET",
  path: "/users/@me/servers/:server_id/notification-settings",
  summary: "Get the caller's notification level for a server",
  tag: "Notifications",
  auth: "user",
  permission: "member",
  params: byServer,
  reply: NotificationSettings,
  fails: ["invalid_server_id", "server_not_found", "access_denied"],
})

export const putServerNotificationSettings = defineRoute({
  method: "PUT",
  path: "/users/@me/servers/:server_id/notification-settings",
  summary: "Set the notification level for a server. Omitted fields stay unchanged",
  tag: "Notifications",
  auth: "user",
  permission: "member",
  params: byServer,
  body: NotificationPatch,
  example: { level: "mentions" },
  reply: NotificationSettings,
  fails: ["invalid_server_id", "server_not_found", "access_denied", "notification_settings_limit"],
})

export const getChannelNotificationSettings = defineRoute({
  method: "GET",
  path: "/users/@me/channels/:channel_id/notification-settings",
  summary: "Get the caller's notification level for a channel or a DM",
  tag: "Notifications",
  auth: "user",
  permission: ["channels.view"],
  params: byChannel,
  reply: NotificationSettings,
  fails: ["invalid_channel_id", "channel_not_found", "access_denied"],
})

export const putChannelNotificationSettings = defineRoute({
  method: "PUT",
  path: "/users/@me/channels/:channel_id/notification-settings",
  summary: `Set the notification level for a channel or a DM. Omitted fields stay unchanged. A user has at most ${limits.notificationSettings} such settings`,
  tag: "Notifications",
  auth: "user",
  permission: ["channels.view"],
  params: byChannel,
  body: NotificationPatch,
  example: { muted: true, muted_until: 1_893_456_000 },
  reply: NotificationSettings,
  fails: ["invalid_channel_id", "channel_not_found", "access_denied", "notification_settings_limit"],
})

export const routes = {
  listNotificationSettings,
  getServerNotificationSettings,
  putServerNotificationSettings,
  getChannelNotificationSettings,
  putChannelNotificationSettings,
}

export const notificationSettingsUpdate = defineEvent({
  name: "NOTIFICATION_SETTINGS_UPDATE",
  intent: null,
  delivery: "stored",
  summary: "The user changed a notification level for a server, a channel or a DM. Sent to their own sessions",
  data: NotificationSettings,
})
