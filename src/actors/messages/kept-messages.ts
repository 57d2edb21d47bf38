import type { ServerState } from "../../domain/communities/servers.ts"
import type { MessageState } from "../../domain/messages/messages.ts"
import { messageKey, nonceKey } from "../../storage/messages/messages.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { noteHistoryChange } from "./history-version.ts"
import { messageFacts, nonceFacts, sentOf } from "./message-facts.ts"

/** Keeps a message current wherever the home remembers it. */
export function keep(draft: ServerState, state: MessageState): void {
  noteHistoryChange(draft, state.channel_id)
  messageFacts.of(draft).set(messageKey(state.channel_id, state.id), state)
  if (state.nonce !== null)
    nonceFacts.of(draft).set(nonceKey(state.channel_id, state.author_id, state.nonce), sentOf(state))
}

/**
 * A deleted message is forgotten except for its nonce: a user who sends it again receives an empty
 * message.
 */
export function forget(draft: ServerState, found: Readonlied<MessageState>): void {
  const { id, channel_id, server_id, author_id, author_username, author_bot, author_badges, nonce } = found
  noteHistoryChange(draft, channel_id)
  messageFacts.of(draft).set(messageKey(channel_id, id), null)
  if (nonce !== null)
    nonceFacts.of(draft).set(nonceKey(channel_id, author_id, nonce), {
      id,
      channel_id,
      server_id,
      author_id,
      author_username,
      author_bot,
      author_badges,
      nonce,
      ...(found.webhook_id && { webhook_id: found.webhook_id, webhook_name: found.webhook_name ?? null }),
      content: null,
      edited_at: null,
      reply_to_id: null,
      deleted: true,
    })
}
