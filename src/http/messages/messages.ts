import { blocked, type Held, type Moderated } from "../../actors/messages/automod-judging.ts"
import { channelActor } from "../../actors/channel.ts"
import type { CreatedMessage, SentBefore, SentText } from "../../actors/messages/messages.ts"
import type { Actor } from "../../domain/accounts/accounts.ts"
import { fail } from "../../contract/core/errors.ts"
import { success, type Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { Message, routes } from "../../contract/messages/messages.ts"
import { ownUploads } from "./attachments.ts"
import { actorOf, Encoded, type Call, type Handlers } from "../server/handlers.ts"
import { messageObject, newMessage } from "../../domain/messages/messages.ts"
import { History } from "../../views/history.ts"
import { seenBy } from "../../views/message-views.ts"
import type { Http } from "../shared/http.ts"
import type { Moderation } from "../../domain/service/server-status.ts"
import type { ViewSources } from "../../views/sources.ts"

/** What operators have set of auto-moderation by now. */
export interface ModerationSource {
  readonly moderation: () => Moderation
}
type MessagesNeeds = Http<"messages" | "uploads"> & {
  readonly views: ViewSources
  readonly service: ModerationSource
}

export const messages = (http: MessagesNeeds): Handlers<typeof routes> => {
  const {
    ask,
    storage,
    views,
    service: { moderation },
  } = http
  const history = new History(views)

  /** A message as it is by now, if it is there. */
  async function looked(channel: Snowflake, id: Snowflake, reader: Snowflake): Promise<Message | undefined> {
    const found = await storage.messages.find(channel, [id])
    return (await seenBy(views, reader, [...found.values()]))[0]
  }

  /** A message that was deleted before its author was answered, as a repeated nonce is answered. */
  function emptied(channel_id: Snowflake, sent: SentBefore, author: Actor, nonce: string | undefined): Message {
    const place = { channel_id, server_id: sent.server_id }
    const now = views.clock()
    const message = newMessage(place, author, { nonce }, [], { now, newId: () => sent.sentBefore })
    return messageObject(message, { linkTo: views.linkTo, now, reader: author.id })
  }

  /** Most are answered with the text that their turn made: with one promise beside that of the turn. */
  function send(
    call: Call<typeof routes.createMessage>,
    attachments?: Awaited<ReturnType<typeof ownUploads>>,
  ): Promise<Message | Encoded<Message>> {
    const { params, body, caller, idempotencyKey } = call
    const { classifiers, moderation: set } = moderatedBy(moderation())
    return ask(channelActor, params.channel_id, {
      type: "createMessage",
      author: actorOf(caller),
      content: body.content,
      reply_to_id: body.reply_to_id,
      attachments,
      embeds: body.embeds,
      poll: body.poll,
      nonce: body.nonce ?? idempotencyKey,
      takesText: true,
      takesName: true,
      classifiers,
      moderation: set,
    }).then<Message | Encoded<Message>>(answer => {
      const sent = unlessRefused<CreatedMessage | SentText | SentBefore>(answer)
      return "text" in sent ? new Encoded<Message>(sent.text) : shown(call, sent)
    })
  }

  /** What was there before may have been read, reacted to or deleted since. */
  async function shown(
    { params: { channel_id }, body, caller, idempotencyKey }: Call<typeof routes.createMessage>,
    sent: CreatedMessage | SentBefore,
  ): Promise<Message> {
    if ("sentBefore" in sent)
      return (
        (await looked(channel_id, sent.sentBefore, caller.user_id)) ??
        emptied(channel_id, sent, actorOf(caller), body.nonce ?? idempotencyKey)
      )
    const { repeats, ...message } = sent
    return repeats ? ((await looked(channel_id, message.id, caller.user_id)) ?? message) : message
  }

  return {
    createMessage(call) {
      const { attachments } = call.body
      return attachments ? ownUploads(http, call.caller.user_id, attachments).then(own => send(call, own)) : send(call)
    },

    async listMessages({ params, query, caller }) {
      const { limit = limits.defaultPageSize, ...place } = query
      const { json, next } = await history.page(caller.user_id, params.channel_id, { limit, ...place })
      return new Encoded<Message[]>(json, next)
    },

    async getMessage({ params, caller }) {
      await ask(channelActor, params.channel_id, { type: "requireRead", user: caller.user_id })
      const found = await storage.messages.find(params.channel_id, [params.message_id])
      const message = found.get(params.message_id)
      if (!message) throw fail("message_not_found")
      return (await seenBy(views, caller.user_id, [message]))[0]!
    },

    async editMessage({ params, body, caller }) {
      const edited = await judged<Message>(moderation(), moderated =>
        ask(channelActor, params.channel_id, {
          type: "editMessage",
          author: actorOf(caller),
          message_id: params.message_id,
          content: body.content,
          ...moderated,
        }),
      )
      // No turn says who has received and read it, nor what the reader has voted for and reacted
      // with.
      return (await looked(params.channel_id, edited.id, caller.user_id)) ?? edited
    },

    async deleteMessage({ params, caller, reason }) {
      await ask(channelActor, params.channel_id, {
        type: "deleteMessage",
        user: caller.user_id,
        reason,
        message_id: params.message_id,
      })
      return success
    },

    async bulkDeleteMessages({ params, body, caller, reason }) {
      const { deleted } = await ask(channelActor, params.channel_id, {
        type: "bulkDeleteMessages",
        user: caller.user_id,
        reason,
        message_ids: body.messages,
      })
      return { success: true, deleted }
    },
  }
}

/** The message, or the poll, that a channel makes of a text, or the refusal of its auto-moderation. */
export async function judged<T extends object>(
  moderation: Moderation,
  send: (moderated: Moderated) => Promise<T | Held>,
): Promise<T> {
  return unlessRefused<T>(await send(moderatedBy(moderation)))
}

function moderatedBy(moderation: Moderation): Moderated {
  const isUsual = !moderation.isOff && moderation.backends.length === 0
  return isUsual ? usual : { ...usual, moderation }
}

function unlessRefused<T extends object>(answer: T | Held): T {
  if ("refused" in answer) throw blocked(answer.refused)
  return answer
}

/** An owner of the version before is told that it can ask no classifier: it would have its asker do so. */
const usual: Moderated = { classifiers: [] }
