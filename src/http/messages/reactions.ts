import { channelActor } from "../../actors/channel.ts"
import { fail } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { routes } from "../../contract/messages/reactions.ts"
import { emojiKey, givenEmoji, type GivenEmoji } from "../../domain/messages/reactions.ts"
import type { Handlers } from "../server/handlers.ts"
import { reactionsSeenBy } from "../../views/message-views.ts"
import type { Http } from "../shared/http.ts"
import type { ViewSources } from "../../views/sources.ts"

export const reactions = ({
  ask,
  storage,
  views,
}: Http<"emojis" | "messages" | "reactions"> & { readonly views: ViewSources }): Handlers<typeof routes> => {
  async function readable({ channel_id, message_id }: { channel_id: string; message_id: string }, user: string) {
    await ask(channelActor, channel_id, { type: "requireRead", user })
    const found = (await storage.messages.find(channel_id, [message_id])).get(message_id)
    if (!found) throw fail("message_not_found")
    return found
  }

  return {
    async addReaction({ params, caller }) {
      const emoji = required(params.emoji)
      const user = caller.user_id
      // Emoji belong to servers that may live elsewhere, so they are looked up before the turn.
      const custom = emoji.id === null ? undefined : await storage.emojis.usableBy(emoji.id, user)
      const { channel_id, message_id } = params
      await ask(channelActor, channel_id, { type: "addReaction", user, message_id, emoji, custom })
      return success
    },

    async removeReaction({ params, caller }) {
      const emoji = required(params.emoji)
      const { channel_id, message_id } = params
      await ask(channelActor, channel_id, { type: "removeReaction", user: caller.user_id, message_id, emoji })
      return success
    },

    async listReactions({ params, caller }) {
      return reactionsSeenBy(views.storage, caller.user_id, await readable(params, caller.user_id))
    },

    async listReactors({ params, query, caller }) {
      const emoji = emojiKey(required(params.emoji))
      await readable(params, caller.user_id)
      const { limit = limits.defaultPageSize, after } = query
      return storage.reactions.reactors({ ...params, emoji }, { limit, after })
    },
  }
}

function required(text: string): GivenEmoji {
  const emoji = givenEmoji(text)
  if (!emoji) throw fail("invalid_emoji")
  return emoji
}
