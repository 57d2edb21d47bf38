import { serverActor } from "../../actors/server.ts"
import { success } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { routes } from "../../contract/communities/moderation.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"

export const moderation = ({ ask, storage }: Http<"bans" | "users">): Handlers<typeof routes> => ({
  async kickMember({ params: { server_id, member_id }, query, caller, reason: given }) {
    const reason = query.reason || given
    await ask(serverActor, server_id, { type: "kick", user: caller.user_id, reason, member_id })
    return success
  },

  async listBans({ params: { server_id }, query: { after = "0", limit = limits.bansPage }, caller }) {
    await ask(serverActor, server_id, { type: "requireBans", user: caller.user_id })
    return storage.bans.list(server_id, after, limit)
  },

  async banUser({ params: { server_id, user_id }, body, caller, reason: given = "" }) {
    const username = (await storage.users.find(user_id))?.username ?? null
    const { reason = given, delete_message_days: days = 0 } = body
    const target = { target_id: user_id, username }
    await ask(serverActor, server_id, { type: "ban", user: caller.user_id, ...target, reason, days })
    return success
  },

  async unbanUser({ params: { server_id, user_id }, caller, reason }) {
    const username = (await storage.users.find(user_id))?.username ?? ""
    await ask(serverActor, server_id, { type: "unban", user: caller.user_id, reason, target_id: user_id, username })
    return success
  },
})
