import { channelActor } from "../actors/channel.ts"
import { fail } from "../contract/errors.ts"
import { success } from "../contract/fields.ts"
import { limits } from "../contract/limits.ts"
import type { routes } from "../contract/messages.ts"
import { messageObject } from "../domain/messages.ts"
import { actorOf, type Handlers, type Http } from "./handlers.ts"

export const messages = ({ ask, storage }: Http): Handlers<typeof routes> => ({
  createMessage: ({ params, body, caller, idempotencyKey }) =>
    ask(channelActor, params.channel_id, {
      type: "createMessage",
      author: actorOf(caller),
      content: body.content,
      reply_to_id: body.reply_to_id,
      nonce: body.nonce ?? idempotencyKey,
    }),

  async listMessages({ params, query, caller }) {
    await ask(channelActor, params.channel_id, { type: "requireRead", user: caller.user_id })
    const { limit = limits.defaultPageSize, before, after } = query
    const page = await storage.messages.page(params.channel_id, { limit, before, after })
    return page.map(message => messageObject(message, caller.user_id))
  },

  async getMessage({ params, caller }) {
    await ask(channelActor, params.channel_id, { type: "requireRead", user: caller.user_id })
    const found = await storage.messages.find(params.channel_id, [params.message_id])
    const message = found.get(params.message_id)
    if (!message) throw fail("message_not_found")
    return messageObject(message, caller.user_id)
  },

  editMessage: ({ params, body, caller }) =>
    ask(channelActor, params.channel_id, {
      type: "editMessage",
      user: caller.user_id,
      author: actorOf(caller),
      message_id: params.message_id,
      content: body.content,
    }),

  async deleteMessage({ params, caller, reason }) {
    await ask(channelActor, params.channel_id, {
      type: "deleteMessage",
      user: caller.user_id,
      reason,
      message_id: params.message_id,
    })
    return success
  },
})
