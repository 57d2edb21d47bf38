import { z } from "zod"
import { Embeds } from "./embeds.ts"
import { sample } from "../core/examples.ts"
import {
  HttpUrl,
  nameText,
  omittable,
  queryFlag,
  Seconds,
  Snowflake,
  SnowflakeInput,
  Success,
  text,
} from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineEvent, defineRoute } from "../core/registry.ts"

export const auditActions = ["WEBHOOK_CREATE", "WEBHOOK_UPDATE", "WEBHOOK_DELETE"] as const

const webhookFields = {
  id: Snowflake,
  channel_id: Snowflake,
  server_id: Snowflake,
  guild_id: Snowflake,
  creator_id: Snowflake.describe("The user who created it. It keeps working after they leave"),
  name: z.string(),
  avatar_url: z.string().nullable(),
  created_at: Seconds,
}
export const ListedWebhook = z.object(webhookFields).meta({ id: "ListedWebhookResponse" })
export type ListedWebhook = z.infer<typeof ListedWebhook>

export const Webhook = z
  .object({
    ...webhookFields,
    token: z.string().nullable().describe("Shown only in the response that creates the webhook or renews its token"),
    url: z.string().nullable().describe("The URL to send messages to. It has the token, and is shown only with it"),
  })
  .meta({ id: "WebhookResponse" })
export type Webhook = z.infer<typeof Webhook>

/** What became of an execution that was waited for. */
export const WebhookExecution = z
  .object({
    id: Snowflake.describe("The id of the message"),
    webhook_id: Snowflake,
    channel_id: Snowflake,
    content: z.string().nullable(),
    username: z.string().describe("As shown in the message"),
    avatar_url: z.string().nullable(),
    created_at: Seconds,
  })
  .meta({ id: "WebhookExecutionResponse" })
export type WebhookExecution = z.infer<typeof WebhookExecution>

const AvatarUrl = z
  .union([z.literal(""), HttpUrl])
  .describe('An http or https URL outside private networks. `""`: none')

const WebhookName = nameText(limits.webhookName.min, limits.webhookName.max)

export const WebhookInput = z
  .object({
    channel_id: SnowflakeInput,
    name: WebhookName.describe("Stored as given"),
    avatar_url: omittable(AvatarUrl),
  })
  .meta({ id: "WebhookCreateRequest" })
export type WebhookInput = z.output<typeof WebhookInput>

export const WebhookPatch = z
  .object({
    channel_id: omittable(SnowflakeInput).describe("Another channel of the same server"),
    name: omittable(WebhookName),
    avatar_url: omittable(AvatarUrl),
  })
  .meta({ id: "WebhookUpdateRequest" })
export type WebhookPatch = z.output<typeof WebhookPatch>

export const WebhookMessage = z
  .object({
    content: omittable(text(0, limits.webhookMessageCharacters)),
    username: omittable(nameText(0, limits.webhookUsername)).describe("Replaces the webhook's name for this message"),
    avatar_url: omittable(AvatarUrl).describe("Replaces the webhook's avatar for this message"),
    embeds: omittable(Embeds),
    thread_id: omittable(SnowflakeInput).describe("No effect: there are no threads"),
  })
  .meta({ id: "WebhookExecuteRequest" })

const byWebhook = z.object({ webhook_id: Snowflake })

export const createWebhook = defineRoute({
  method: "POST",
  path: "/webhooks",
  summary: "Create a webhook in a channel. Only this response shows its token",
  tag: "Webhooks",
  auth: "user",
  isAudited: true,
  permission: ["webhooks.manage"],
  body: WebhookInput,
  example: { channel_id: sample.channel, name: "Builds" },
  reply: Webhook,
  fails: [
    "channel_not_found",
    "access_denied",
    "permission_denied",
    "not_a_text_channel",
    "private_address",
    "webhook_limit",
  ],
})

export const getWebhook = defineRoute({
  method: "GET",
  path: "/webhooks/:webhook_id",
  summary: "Get a webhook, without its token",
  tag: "Webhooks",
  auth: "user",
  permission: ["webhooks.manage"],
  params: byWebhook,
  reply: Webhook,
  fails: ["invalid_webhook_id", "webhook_not_found", "access_denied", "permission_denied"],
})

export const editWebhook = defineRoute({
  method: "PATCH",
  path: "/webhooks/:webhook_id",
  summary: "Change a webhook's name, avatar or channel",
  tag: "Webhooks",
  auth: "user",
  isAudited: true,
  permission: ["webhooks.manage"],
  params: byWebhook,
  body: WebhookPatch,
  example: { name: "Releases" },
  reply: Webhook,
  fails: [
    "invalid_webhook_id",
    "webhook_not_found",
    "access_denied",
    "permission_denied",
    "channel_not_found",
    "not_a_text_channel",
    "private_address",
    "webhook_limit",
  ],
})

export const deleteWebhook = defineRoute({
  method: "DELETE",
  path: "/webhooks/:webhook_id",
  summary: "Delete a webhook. Its messages stay",
  tag: "Webhooks",
  auth: "user",
  isAudited: true,
  permission: ["webhooks.manage"],
  params: byWebhook,
  reply: Success,
  fails: ["invalid_webhook_id", "webhook_not_found", "access_denied", "permission_denied"],
})

export const regenerateWebhookToken = defineRoute({
  method: "POST",
  path: "/webhooks/:webhook_id/regenerate-token",
  summary: "Renew a webhook's token. The old token stops working at once",
  tag: "Webhooks",
  auth: "user",
  isAudited: true,
  permission: ["webhooks.manage"],
  params: byWebhook,
  reply: Webhook,
  fails: ["invalid_webhook_id", "webhook_not_found", "access_denied", "permission_denied"],
})

export const listServerWebhooks = defineRoute({
  method: "GET",
  path: "/servers/:server_id/webhooks",
  summary: "List the webhooks of a server in the channels where the caller may manage them, oldest first",
  tag: "Webhooks",
  auth: "user",
  permission: ["webhooks.manage"],
  params: z.object({ server_id: Snowflake }),
  reply: z.array(ListedWebhook),
  fails: ["invalid_server_id", "server_not_found", "access_denied", "permission_denied"],
})

export const listChannelWebhooks = defineRoute({
  method: "GET",
  path: "/channels/:channel_id/webhooks",
  summary: "List the webhooks of a channel, oldest first",
  tag: "Webhooks",
  auth: "user",
  permission: ["webhooks.manage"],
  params: z.object({ channel_id: Snowflake }),
  reply: z.array(ListedWebhook),
  fails: ["invalid_channel_id", "channel_not_found", "access_denied", "permission_denied"],
})

export const executeWebhook = defineRoute({
  method: "POST",
  path: "/webhooks/:webhook_id/:token",
  mount: "both",
  summary:
    "Send a message through a webhook. A request that repeats the header Idempotency-Key returns the first message, as long as the webhook stays in its channel. It is refused while the user who was given the token (its creator, or who renewed it last) is banned, or is a member who may not manage webhooks in the channel. Slow mode and auto-moderation do not apply",
  tag: "Webhooks",
  auth: "public",
  isGated: false,
  params: z.object({
    webhook_id: Snowflake,
    token: z.string().describe("The whole token, or the part after its last dot"),
  }),
  query: z.object({
    wait: queryFlag.optional().describe("Return the resulting message instead of `{success: true}`"),
    thread_id: Snowflake.optional().describe("No effect: there are no threads"),
  }),
  body: WebhookMessage,
  example: { content: "Build 512 is green", username: "Builds" },
  reply: z.union([Success, WebhookExecution]),
  fails: [
    "invalid_webhook_id",
    "webhook_not_found",
    "invalid_webhook_token",
    "webhook_suspended",
    "not_a_text_channel",
    "empty_message",
    "invalid_content",
    "too_many_embeds",
    "private_address",
  ],
})

export const routes = {
  createWebhook,
  getWebhook,
  editWebhook,
  deleteWebhook,
  regenerateWebhookToken,
  listServerWebhooks,
  listChannelWebhooks,
  executeWebhook,
}

export const webhooksUpdate = defineEvent({
  name: "WEBHOOKS_UPDATE",
  intent: "GUILD_WEBHOOKS",
  delivery: "stored",
  summary:
    "The webhooks of a channel changed. Sent to users who may view the channel and manage its webhooks. Read them again",
  data: z.object({ guild_id: Snowflake, server_id: Snowflake, channel_id: Snowflake }),
})
