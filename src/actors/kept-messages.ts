import type { MessageState, SentState, ServerState } from "../domain/states.ts"
import { messageKey, nonceKey } from "../storage/messages.ts"
import type { Readonlied } from "./runtime/actor.ts"
import { noteInTail } from "./tails.ts"

/** Keeps a message current wherever the home remembers it. */
export function keep(draft: ServerState, state: MessageState): void {
  countPins(draft, state, state.pinned_at ?? null)
  noteInTail(draft, state.channel_id, state.id, state)
  draft.messages.set(messageKey(state.channel_id, state.id), state)
  if (state.nonce !== null) draft.nonces.set(nonceKey(state.channel_id, state.author_id, state.nonce), sentOf(state))
}

/** What is kept by its nonce alone. */
export function sentOf(state: MessageState): SentState {
  const { embeds: _, attachments: _a, reactions: _r, poll: _p, ...sent } = state
  return sent
}

const emptied = {
  content: null,
  edited_at: null,
  reply_to_id: null,
  embeds: null,
  webhook_avatar_url: null,
  attachments: null,
  reactions: null,
  poll: null,
  pinned_at: null,
} as const satisfies Partial<MessageState>

/** A deleted message is gone, but for its nonce. */
export function forget(draft: ServerState, found: Readonlied<MessageState>): void {
  countPins(draft, found, null)
  noteInTail(draft, found.channel_id, found.id, null)
  draft.messages.set(messageKey(found.channel_id, found.id), null)
  if (found.nonce !== null)
    draft.nonces.set(nonceKey(found.channel_id, found.author_id, found.nonce), {
      ...found,
      author_badges: found.author_badges,
      ...emptied,
      deleted: true,
    })
}

/** The number of pins, where a command has asked for it: whoever takes a pin away needs it first, see message-deletion.ts. */
function countPins(draft: ServerState, { channel_id, id }: Readonlied<MessageState>, pinned_at: number | null): void {
  const before = draft.messages.get(messageKey(channel_id, id))?.pinned_at ?? null
  const known = draft.pins.get(channel_id)
  if (!known || (before === null) === (pinned_at === null)) return
  draft.pins.set(channel_id, {
    count: known.count + (pinned_at === null ? -1 : 1),
    latest: Math.max(known.latest, pinned_at ?? 0),
  })
}
