import { z } from "zod"
import { omittable, Snowflake } from "./fields.ts"
import { limits } from "./limits.ts"
import { defineEvent, defineRoute } from "./registry.ts"

export const NotificationLevel = z.enum(["all", "mentions", "nothing"])
export type NotificationLevel = z.infer<typeof NotificationLevel>

/** The end of the year 9999. */
const latest = 253_402_300_799

export const NotificationPatch = z
  .object({
    level: omittable(z.enum([...NotificationLevel.options, "default"])).describe(
      "`default`: as the server has it, and a channel as the caller has it for the server",
    ),
    muted: omittable(z.boolean()).describe("Without `muted_until`: for ever"),
    muted_until: omittable(z.int().min(0).max(latest)).describe(
      "Unix time in seconds at which the mute ends by itself; 0: for ever. Without `muted` it mutes",
    ),
  })
  .meta({ id: "NotificationSettingsRequest" })
export type NotificationPatch = z.output<typeof NotificationPatch>

export const NotificationSettings = z
  .object({
    server_id: Snowflake.nullable().describe("Null: of a conversation outside servers"),
    guild_id: Snowflake.nullable(),
    channel_id: Snowflake.nullable().describe("Null: of the server as a whole"),
    level: NotificationLevel.nullable().describe("Null: none was chosen here"),
    muted: z.boolean(),
    muted_until: z.int().describe("Unix time in seconds; 0: for ever, or not muted"),
    effective: z
      .object({ level: NotificationLevel, muted: z.boolean() })
      .describe(
        "What holds: the level of the channel, else the caller's of the server, else the server's own, which outside servers is `all`; a muted server mutes its channels",
      ),
  })
  .meta({ id: "NotificationSettingsResponse" })
export type NotificationSettings = z.infer<typeof NotificationSettings>

const byServer = z.object({ server_id: Snowflake })
const byChannel = z.object({ channel_id: Snowflake })

export const getServerNotificationSettings = defineRoute({
  method: "GET",
  path: "/users/@me/servers/:server_id/notification-settings",
  summary: "Of which mentions in a server the caller wants to be notified",
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
  summary: "Choose of which mentions in a server to be notified; what is left out stays",
  tag: "Notifications",
  auth: "user",
  permission: "member",
  params: byServer,
  body: NotificationPatch,
  reply: NotificationSettings,
  fails: ["invalid_server_id", "server_not_found", "access_denied", "notification_settings_limit"],
})

export const getChannelNotificationSettings = defineRoute({
  method: "GET",
  path: "/users/@me/channels/:channel_id/notification-settings",
  summary: "Of which mentions in a channel or a DM the caller wants to be notified",
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
  summary: `Choose of which mentions in a channel or a DM to be notified; what is left out stays. One user has at most ${limits.notificationSettings} such choices`,
  tag: "Notifications",
  auth: "user",
  permission: ["channels.view"],
  params: byChannel,
  body: NotificationPatch,
  reply: NotificationSettings,
  fails: ["invalid_channel_id", "channel_not_found", "access_denied", "notification_settings_limit"],
})

export const routes = {
  getServerNotificationSettings,
  putServerNotificationSettings,
  getChannelNotificationSettings,
  putChannelNotificationSettings,
}

export const notificationSettingsUpdate = defineEvent({
  name: "NOTIFICATION_SETTINGS_UPDATE",
  intent: null,
  delivery: "stored",
  summary: "The user has chosen what he wants to be told of in a server, a channel or a DM; his own sessions get it",
  data: NotificationSettings,
})
