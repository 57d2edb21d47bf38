import { channelActor } from "../actors/channel.ts"
import { success } from "../contract/fields.ts"
import { limits } from "../contract/limits.ts"
import type { routes } from "../contract/pins.ts"
import type { Handlers, Http } from "./handlers.ts"
import { seenBy } from "./message-views.ts"

export const pins = (http: Http): Handlers<typeof routes> => ({
  async listPins({ params, caller }) {
    await http.ask(channelActor, params.channel_id, { type: "requireRead", user: caller.user_id })
    return seenBy(http, caller.user_id, await http.storage.messages.pinned(params.channel_id, limits.pinsPerChannel))
  },

  async pinMessage({ params, caller, reason }) {
    const { channel_id, message_id } = params
    await http.ask(channelActor, channel_id, { type: "pinMessage", user: caller.user_id, reason, message_id })
    return success
  },

  async unpinMessage({ params, caller, reason }) {
    const { channel_id, message_id } = params
    await http.ask(channelActor, channel_id, { type: "unpinMessage", user: caller.user_id, reason, message_id })
    return success
  },
})
