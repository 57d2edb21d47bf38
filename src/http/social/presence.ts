import { userActor } from "../../actors/user.ts"
import { fail } from "../../contract/core/errors.ts"
import { Status, type routes } from "../../contract/social/presence.ts"
import { secondsAt } from "../../std/clock.ts"
import { defaultPresence, offline } from "../../domain/core/presences.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http, Live } from "../shared/http.ts"

export const presence = ({
  ask,
  storage,
  live: { presences },
  clock,
}: Http<"presences"> & { readonly live: Pick<Live, "presences"> }): Handlers<typeof routes> => {
  const now = () => secondsAt(clock())
  return {
    async updatePresence({ body, caller }) {
      const status = Status.safeParse(body.status)
      if (!status.success) throw fail("invalid_status")
      const { custom_status, custom_emoji } = body
      const command = { type: "setPresence", status: status.data, custom_status, custom_emoji } as const
      return { user_id: caller.user_id, ...(await ask(userActor, caller.user_id, command)), last_seen: now() }
    },

    async getPresence({ params: { user_id }, caller }) {
      if (user_id === caller.user_id) {
        const chosen = (await storage.presences.chosen([user_id])).get(user_id) ?? defaultPresence
        return { user_id, ...chosen, last_seen: now() }
      }
      const [isVisible, seen, lastSeen] = await Promise.all([
        storage.presences.isVisible(user_id, caller.user_id),
        presences.of([user_id]),
        storage.presences.lastSeen(user_id),
      ])
      if (!isVisible) return { user_id, ...offline, last_seen: 0 }
      const shown = seen.get(user_id)
      return shown ? { user_id, ...shown, last_seen: now() } : { user_id, ...offline, last_seen: lastSeen }
    },
  }
}
