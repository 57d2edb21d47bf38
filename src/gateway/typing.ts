import type { Ask } from "../actors/runtime/actor.ts"
import { channelActor } from "../actors/channel.ts"
import { Typing } from "../contract/gateway.ts"
import type { SessionHandlers } from "./requests.ts"

/** Ops 40 and 41: somebody types, or has stopped. */
export const typing = ({ ask }: { readonly ask: Ask }): Pick<SessionHandlers, "TYPING_START"> => ({
  async TYPING_START(session, d) {
    const asked = Typing.safeParse(d)
    if (!asked.success) return
    const user = { id: session.user, username: session.username, badges: [] }
    await ask(channelActor, asked.data.channel_id, { type: "startTyping", user })
  },
})
