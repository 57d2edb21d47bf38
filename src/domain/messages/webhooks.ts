import type { Snowflake } from "../../contract/core/fields.ts"
import type { ListedWebhook, Webhook, WebhookExecution } from "../../contract/messages/webhooks.ts"
import { secondsOf } from "../core/snowflake.ts"
import type { MessageState } from "./messages.ts"

export interface WebhookState {
  id: Snowflake
  server_id: Snowflake
  channel_id: Snowflake
  creator_id: Snowflake
  /** Who was given the token last: the creator, or the user who renewed it. It sends by their right. */
  holder_id: Snowflake
  /** They were kicked since they were given it. */
  holder_kicked: boolean
  name: string
  avatar_url: string | null
  /** SHA-256 of the token's secret, in hex. */
  token_hash: string
  created_at: number
}

/** A webhook as lists show it. */
export const listedWebhook = (webhook: Readonly<WebhookState>): ListedWebhook => ({
  id: webhook.id,
  channel_id: webhook.channel_id,
  server_id: webhook.server_id,
  guild_id: webhook.server_id,
  creator_id: webhook.creator_id,
  name: webhook.name,
  avatar_url: webhook.avatar_url,
  created_at: webhook.created_at,
})

/** A webhook by itself. Nobody here knows its token any more. */
export const webhookObject = (webhook: Readonly<WebhookState>): Webhook => ({
  ...listedWebhook(webhook),
  token: null,
  url: null,
})

export const executionObject = (message: Readonly<MessageState>): WebhookExecution => ({
  id: message.id,
  webhook_id: message.author_id,
  channel_id: message.channel_id,
  content: message.content,
  username: message.author_username,
  // Of a deleted message nothing is left to be seen but under which name it was sent.
  avatar_url: (!message.deleted && message.webhook_avatar_url) || null,
  created_at: secondsOf(message.id),
})

/** The whole token, of which only the secret proves anything. */
export const webhookToken = (id: Snowflake, secret: string): string => `webhook.${id}.${secret}`

/**
 * The secret in what came as a webhook's token: the whole token, or its last part alone. Undefined:
 * it is another's, or none.
 */
export function webhookSecret(id: Snowflake, token: string): string | undefined {
  const secret = token.startsWith("webhook.") ? token.slice(`webhook.${id}.`.length) : token
  return /^[\w-]{64}$/.test(secret) && (token === secret || token === webhookToken(id, secret)) ? secret : undefined
}

/** A request's path as logs may show it: the token of a webhook is left out. */
export const loggedPath = (path: string): string =>
  path.replace(/(\/webhooks\/[^/]*)\/(?!regenerate-token$).+/is, "$1/{token}")
