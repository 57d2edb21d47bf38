import { channelActor } from "../../actors/channel.ts"
import { success } from "../../contract/core/fields.ts"
import { limits } from "../../contract/messages/pins.ts"
import type { routes } from "../../contract/messages/pins.ts"
import type { Call, Handlers } from "../server/handlers.ts"
import { seenBy } from "../../views/message-views.ts"
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
    async listPins({ params, caller }) {
      await ask(channelActor, params.channel_id, { type: "requireRead", user: caller.user_id })
      return seenBy(views, caller.user_id, await storage.messages.pinned(params.channel_id, limits.pinsPerChannel))
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
