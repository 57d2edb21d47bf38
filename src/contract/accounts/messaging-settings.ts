import { z } from "zod"
import { Snowflake, omittable } from "../core/fields.ts"
import { defineRoute } from "../core/registry.ts"

const AllowDmsFrom = z.enum(["everyone", "friends", "none"])

/** What users decide about their messages. */
const Choice = z.object({
  read_receipts_enabled: z.boolean().describe("Whether others can see what the user has read"),
  typing_indicators_enabled: z.boolean().describe("Whether others can see that the user is typing"),
  compact_messages_enabled: z.boolean(),
  allow_dms_from: AllowDmsFrom.describe("Who may create a DM with the user. Existing DMs stay"),
  auto_create_dms: z.boolean().describe("Stored for clients. It has no effect on the server"),
})
export type MessagingChoice = z.infer<typeof Choice>

export const messagingDefaults: MessagingChoice = {
  read_receipts_enabled: true,
  typing_indicators_enabled: true,
  compact_messages_enabled: true,
  allow_dms_from: "everyone",
  auto_create_dms: true,
}

const noOverride = z.int().nullable().describe("Null: the limit of the server applies")
export const MessagingSettings = Choice.extend({
  user_id: Snowflake,
  max_message_length: noOverride,
  max_attachment_size: noOverride,
  max_attachments_per_message: noOverride,
}).meta({ id: "MessagingSettingsResponse" })
export type MessagingSettings = z.infer<typeof MessagingSettings>

export const getMessagingSettings = defineRoute({
  method: "GET",
  path: "/users/@me/messaging-settings",
  summary: "Get the caller's messaging settings",
  tag: "Users",
  auth: "user",
  reply: MessagingSettings,
  fails: [],
})

export const editMessagingSettings = defineRoute({
  method: "PATCH",
  path: "/users/@me/messaging-settings",
  summary: "Change the caller's messaging settings. Omitted fields stay unchanged",
  tag: "Users",
  auth: "user",
  body: z
    .object({
      read_receipts_enabled: omittable(z.boolean()),
      typing_indicators_enabled: omittable(z.boolean()),
      compact_messages_enabled: omittable(z.boolean()),
      allow_dms_from: omittable(AllowDmsFrom),
      auto_create_dms: omittable(z.boolean()),
    })
    .meta({ id: "MessagingSettingsRequest" }),
  example: { read_receipts_enabled: false, allow_dms_from: "friends" },
  reply: MessagingSettings,
  fails: [],
})

export const routes = { getMessagingSettings, editMessagingSettings }
