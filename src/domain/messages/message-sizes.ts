import { valuesIn } from "../../contract/messages/embeds.ts"
import type { MessageState } from "./messages.ts"

/**
 * How large messages are, roughly: where many of them are kept, or sent on, it is this that has a
 * bound.
 */

/** Of what has a bound by itself: a file, an emoji with its tally, an option of a poll. */
const part = 600

interface Size {
  /** Of its JSON. */
  readonly characters: number
  /** In memory. */
  readonly bytes: number
}
const none: Size = { characters: 0, bytes: 0 }
/** Embeds are never changed: what was made of a message has the same ones. */
const sizes = new WeakMap<object, Size>()

function embedsSize(embeds: readonly unknown[] | null | undefined): Size {
  if (!embeds) return none
  let size = sizes.get(embeds)
  if (!size) {
    const characters = JSON.stringify(embeds).length
    // An empty object takes two characters there, and a hundred bytes here.
    size = { characters, bytes: 2 * characters + 100 * valuesIn(embeds) }
    sizes.set(embeds, size)
  }
  return size
}

const partsOf = ({ attachments, reactions, poll }: Readonly<MessageState>): number =>
  part * ((attachments?.length ?? 0) + (reactions?.length ?? 0) + (poll ? 2 + poll.options.length : 0)) +
  (attachments ?? []).reduce((sum, { metadata }) => sum + (metadata?.waveform?.length ?? 0), 0)

/** Bytes of memory. */
export const bytesOf = (message: Readonly<MessageState>): number =>
  500 +
  2 * ((message.content?.length ?? 0) + (message.webhook_avatar_url?.length ?? 0) + partsOf(message)) +
  embedsSize(message.embeds).bytes
