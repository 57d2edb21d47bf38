import { channelActor } from "../../actors/channel.ts"
import { serverActor } from "../../actors/server.ts"
import type { routes } from "../../contract/communities/channels.ts"
import { success } from "../../contract/core/fields.ts"
import { publicUser } from "../../storage/accounts/users.ts"
import { changedBy } from "../shared/changes.ts"
import { actorOf, type Handlers } from "../server/handlers.ts"
import type { Http, Live } from "../shared/http.ts"

export const channels = ({
  ask,
  storage,
  live,
}: Http<"users"> & { readonly live: Pick<Live, "noteTyping"> }): Handlers<typeof routes> => ({
  listChannels: ({ params, caller }) =>
    ask(serverActor, params.server_id, { type: "listChannels", user: caller.user_id }),

  createChannel: ({ params, body, caller, reason }) =>
    ask(serverActor, params.server_id, { type: "createChannel", user: caller.user_id, reason, channel: body }),

  reorderChannels: ({ params, body, caller, ...how }) =>
    ask(serverActor, params.server_id, { type: "reorderChannels", ...changedBy(caller, how), moves: body.channels }),

  async getChannel({ params, caller }) {
    const channel = await ask(channelActor, params.channel_id, { type: "readChannel", user: caller.user_id })
    const other = channel.recipient_id === null ? undefined : await storage.users.find(channel.recipient_id)
    return other ? { ...channel, name: other.username, recipient: publicUser(other) } : channel
  },

  editChannel: ({ params, body, caller, reason }) =>
    ask(channelActor, params.channel_id, { type: "editChannel", user: caller.user_id, reason, patch: body }),

  async deleteChannel({ params, caller, ...how }) {
    await ask(channelActor, params.channel_id, { type: "deleteChannel", ...changedBy(caller, how) })
    return success
  },

  async startTyping({ params, caller }) {
    const hidden = !caller.typing_indicators
    await ask(channelActor, params.channel_id, { type: "startTyping", user: actorOf(caller), hidden })
    if (!hidden) await live.noteTyping(caller.user_id, params.channel_id)
    return success
  },
})
