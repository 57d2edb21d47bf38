import { channelActor } from "../../actors/channel.ts"
import { success } from "../../contract/core/fields.ts"
import { limits } from "../../contract/messages/pins.ts"
import type { routes } from "../../contract/messages/pins.ts"
import { fail } from "../../contract/core/errors.ts"
import type { Message } from "../../contract/messages/messages.ts"
import { isId } from "../../domain/core/snowflake.ts"
import type { PinPlace } from "../../storage/messages/pins.ts"
import { Encoded, type Call, type Handlers } from "../server/handlers.ts"
import { listSeenBy } from "../../views/message-views.ts"
import type { Http } from "../shared/http.ts"
import type { ViewSources } from "../../views/sources.ts"

export function pins({
  ask,
  storage,
  views,
}: Http<"messages"> & { readonly views: ViewSources }): Handlers<typeof routes> {
  /** What a pin, or its removal, is about, with the author's current name. */
  async function deedOf({
    params,
    caller,
    reason,
  }: Pick<Call<typeof routes.pinMessage>, "params" | "caller" | "reason">) {
    const { channel_id, message_id } = params
    const author = await storage.messages.authorOf(channel_id, message_id)
    return { user: caller.user_id, reason, message_id, author }
  }

  return {
    async listPins({ params: { channel_id }, query: { cursor }, caller: { user_id } }) {
      const after = cursor === undefined ? undefined : pinIn(cursor)
      await ask(channelActor, channel_id, { type: "requireRead", user: user_id })
      const { messages, isCut } = await storage.messages.pinned(channel_id, limits.pinsPerChannel, after)
      const { json, next } = await listSeenBy(views, user_id, { messages, isCut })
      const last = messages.find(({ id }) => id === next)
      return new Encoded<Message[]>(json, last ? `${last.pinned_at}.${last.id}` : null)
    },

    async pinMessage(call) {
      await ask(channelActor, call.params.channel_id, { type: "pinMessage", ...(await deedOf(call)) })
      return success
    },

    async unpinMessage(call) {
      await ask(channelActor, call.params.channel_id, { type: "unpinMessage", ...(await deedOf(call)) })
      return success
    },
  }
}

function pinIn(text: string): PinPlace {
  const [, pinned_at, id] = /^(\d{1,15})\.(\d+)$/.exec(text) ?? []
  if (id === undefined || !isId(id)) throw fail("invalid_cursor")
  return { pinned_at: Number(pinned_at), id }
}
