import type { Ask } from "../../runtime/actor.ts"
import { userActor } from "../../actors/user.ts"
import { Activity, PresenceUpdate } from "../../contract/social/presence.ts"
import type { SessionHandlers } from "./handlers.ts"

/** Op 3: the presence that users show from now on. What is invalid in it is ignored. */
export const presenceRequests = ({ ask }: { readonly ask: Ask }): Pick<SessionHandlers, "PRESENCE_UPDATE"> => ({
  async PRESENCE_UPDATE(session, d) {
    if (typeof d !== "object" || d === null || Object.keys(d).length === 0) return
    const asked = PresenceUpdate.safeParse(d)
    if (!asked.success) return
    const { activities, ...shown } = asked.data
    await ask(userActor, session.user, {
      type: "setPresence",
      ...shown,
      activities: activities === undefined ? undefined : first(activities ?? []),
      by: session.id,
    })
  },
})

/** An invalid activity counts as none. */
function first([activity]: readonly unknown[]): Activity[] {
  const read = Activity.safeParse(activity)
  return read.success ? [read.data] : []
}
