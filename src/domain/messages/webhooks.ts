import type { Snowflake } from "../../contract/core/fields.ts"
import type { ListedWebhook, Webhook, WebhookExecution } from "../../contract/messages/webhooks.ts"
import { isWithin, parseAddress, parseRange, type Address, type AddressRange } from "../core/client-address.ts"
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

const rangesOf = (...texts: string[]): readonly AddressRange[] => texts.map(text => parseRange(text)!)

/** Where no picture for everybody can be: private, shared, local, reserved, and of groups. */
const closed = rangesOf(
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "224.0.0.0/3",
)
/**
 * The IPv6 addresses of the public network; of those, the ways to IPv4 hold the address that they
 * lead to.
 */
const [open] = rangesOf("2000::/3")
const [toTeredo, to6to4, toNat64] = rangesOf("2001::/32", "2002::/16", "64:ff9b::/96")

function isPublic(address: Address): boolean {
  if (address.length === 4) return !closed.some(range => isWithin(address, range))
  if (isWithin(address, to6to4!)) return isPublic(address.subarray(2, 6))
  if (isWithin(address, toNat64!)) return isPublic(address.subarray(12))
  return isWithin(address, open!) && !isWithin(address, toTeredo!)
}

const localName = /(?:^|\.)(?:localhost|local|internal|home\.arpa|lan|intranet|localdomain)$/

/**
 * Whether a URL may lead to somewhere that is everybody's, as far as it says so itself: no address
 * of a private network, however it is written, and no name that only such a network knows. The URL
 * is one that the contract took.
 */
export function isPublicUrl(url: string): boolean {
  const { hostname } = new URL(url)
  const name = hostname.replace(/^\[|\]$/g, "").replace(/\.+$/, "")
  const address = parseAddress(name)
  return address ? isPublic(address) : name.includes(".") && !localName.test(name)
}
