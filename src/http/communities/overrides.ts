import { channelActor } from "../../actors/channel.ts"
import { success } from "../../contract/core/fields.ts"
import type { routes } from "../../contract/communities/overrides.ts"
import { changedBy } from "../shared/changes.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"

export const overrides = ({ ask }: Http): Handlers<typeof routes> => ({
  listOverrides: ({ params: { channel_id }, caller }) =>
    ask(channelActor, channel_id, { type: "listOverrides", user: caller.user_id }),

  getOverride: ({ params: { channel_id, target_id }, caller }) =>
    ask(channelActor, channel_id, { type: "readOverride", user: caller.user_id, target_id }),

  setOverride: ({ params: { channel_id, target_id }, body: { type: kind, allow, deny }, caller, ...how }) =>
    ask(channelActor, channel_id, { type: "setOverride", ...changedBy(caller, how), target_id, kind, allow, deny }),

  async deleteOverride({ params: { channel_id, target_id }, caller, ...how }) {
    await ask(channelActor, channel_id, { type: "deleteOverride", ...changedBy(caller, how), target_id })
    return success
  },
})
