import type { Snowflake } from "../contract/fields.ts"
import type { Message } from "../contract/messages.ts"
import { avatarPath } from "../contract/users.ts"
import { shownBadges } from "./badges.ts"
import { secondsOf } from "./snowflake.ts"
import type { MessageState } from "./states.ts"

/**
 * The message as clients see it. `reader` is the caller of a route; null in events, which are the same for everybody.
 */
export function messageObject(message: Readonly<MessageState>, reader: Snowflake | null): Message {
  const shown: Message = {
    id: message.id,
    channel_id: message.channel_id,
    server_id: message.server_id,
    guild_id: message.server_id,
    author_id: message.author_id,
    author_username: message.author_username,
    author_avatar_url: avatarOf(message),
    author_badges: shownBadges(message.author_badges),
    content: message.content,
    created_at: secondsOf(message.id),
    edited_at: message.edited_at,
    reply_to_id: message.reply_to_id,
    attachments: [],
    embeds: message.embeds ? [...message.embeds] : [],
    pinned: message.pinned,
    status: "sent",
    delivery_count: 0,
    read_count: 0,
    read: reader === message.author_id,
    read_by: [],
    reactions: [],
    nonce: message.nonce,
    metadata: null,
    poll: null,
    poll_results: null,
  }
  if (message.webhook_id) shown.webhook_id = message.webhook_id
  return shown
}

function avatarOf(message: Readonly<MessageState>): string | null {
  if (message.webhook_id) return message.webhook_avatar_url ?? null
  return message.author_bot ? null : avatarPath(message.author_id)
}

/** Whether there is nothing to see in a text. */
export const isBlank = (content: string) => content.trim() === ""
