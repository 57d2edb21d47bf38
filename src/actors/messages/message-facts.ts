import type { Snowflake } from "../../contract/core/fields.ts"
import { bytesOf } from "../../domain/messages/message-sizes.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { MessageState, SentState } from "../../domain/messages/messages.ts"
import { messageKey, nonceKey } from "../../storage/messages/messages.ts"
import type { Need } from "../../runtime/facts.ts"
import { defineFact } from "../shared/facts.ts"
import { readMessages } from "./renames.ts"
import { append } from "../../std/multi-map.ts"

/** Messages, as far as commands asked for them or made them. */
export const messageFacts = defineFact<ServerState, MessageState>({
  keep: 200,
  keepBytes: 2 * 1024 * 1024,
  sizeOf: bytesOf,
  async load(storage, _server, keys, home) {
    const found = new Map<string, MessageState>()
    const messages = messageFacts.of(home)
    for (const [channel, ids] of byChannel(keys))
      await readMessages(
        home,
        () => storage.messages.find(channel, ids),
        (rows, renames) => {
          for (const [id, row] of rows) {
            const [key, state] = [messageKey(channel, id), { ...row, ...renames.get(row.author_id) }]
            found.set(key, state)
            // A turn may have made it known meanwhile; the turn is right.
            if (!messages.has(key)) messages.set(key, state)
          }
        },
      )
    return found
  },
})
export const message = (channel: Snowflake, id: Snowflake): Need<ServerState> =>
  messageFacts.need(messageKey(channel, id))

/** What was sent under a nonce; a deleted message keeps its nonce. */
export const nonceFacts = defineFact<ServerState, SentState>({
  keep: 1_000,
  keepBytes: 1024 * 1024,
  sizeOf: bytesOf,
  async load(storage, _server, keys) {
    const found = await storage.messages.byNonces(
      keys.map(key => {
        const [channel, author, ...rest] = key.split(":")
        return { channel: channel!, author: author!, nonce: rest.join(":") }
      }),
    )
    return new Map([...found].map(([key, state]) => [key, sentOf(state)]))
  },
})
export const nonce = (channel: Snowflake, author: Snowflake, value: string): Need<ServerState> =>
  nonceFacts.need(nonceKey(channel, author, value))

/** What is kept by its nonce alone: of most messages the same object, as none is ever changed in place. */
export function sentOf(state: MessageState): SentState {
  if (!state.embeds && !state.attachments && !state.reactions && !state.poll) return state
  const { embeds: _, attachments: _a, reactions: _r, poll: _p, ...sent } = state
  return sent
}

/** Key of a fact about what somebody posts in a channel. */
export const authorKey = (channel: Snowflake, author: Snowflake) => `${channel}:${author}`

/** Keys that begin with a channel, by channel. */
export function byChannel(keys: readonly string[]): Map<Snowflake, Snowflake[]> {
  const grouped = new Map<Snowflake, Snowflake[]>()
  for (const key of keys) {
    const [channel, id] = key.split(":")
    append(grouped, channel!, id!)
  }
  return grouped
}
