import { blocked, type Classified, type Held } from "../actors/automod.ts"
import { channelActor } from "../actors/channel.ts"
import { fail } from "../contract/errors.ts"
import { success } from "../contract/fields.ts"
import { limits } from "../contract/limits.ts"
import type { Message, routes } from "../contract/messages.ts"
import { messageObject } from "../domain/messages.ts"
import { actorOf, type Handlers, type Http } from "./handlers.ts"

export const messages = ({ ask, storage, classifiers }: Http): Handlers<typeof routes> => ({
  createMessage: ({ params, body, caller, idempotencyKey }) =>
    judged(classifiers, body.content ?? "", classified =>
      ask(channelActor, params.channel_id, {
        type: "createMessage",
        author: actorOf(caller),
        content: body.content,
        reply_to_id: body.reply_to_id,
        nonce: body.nonce ?? idempotencyKey,
        ...classified,
      }),
    ),

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
    judged(classifiers, body.content, classified =>
      ask(channelActor, params.channel_id, {
        type: "editMessage",
        user: caller.user_id,
        author: actorOf(caller),
        message_id: params.message_id,
        content: body.content,
        ...classified,
      }),
    ),

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

/**
 * The message that a channel makes of a text, or the refusal of its auto-moderation. Where a rule wants to know what a classifier
 * thinks, it is asked here, and the channel once more: a turn waits for nobody.
 */
async function judged(
  { backends, scores }: Http["classifiers"],
  content: string,
  send: (classified: Classified) => Promise<Message | Held>,
): Promise<Message> {
  const first = await send({ classifiers: backends })
  // What was not asked by then is not asked any more: the rules may have changed meanwhile.
  const answer =
    "unasked" in first ? await send({ classifiers: [], scores: await scores(first.unasked, content) }) : first
  if ("refused" in answer) throw blocked(answer.refused)
  if ("unasked" in answer) throw new Error("asked for scores that it cannot have")
  return answer
}
