import { serverActor } from "../actors/server.ts"
import { fail } from "../contract/errors.ts"
import { success } from "../contract/fields.ts"
import type { routes } from "../contract/servers.ts"
import { isRoomFor, limitsOf } from "../domain/tiers.ts"
import { actorOf, type Handlers, type Http } from "./handlers.ts"

export const servers = ({ ask, create, storage, workersOf }: Http): Handlers<typeof routes> => ({
  listServers: ({ caller }) => storage.servers.ofUser(caller.user_id),

  async createServer({ body, caller }) {
    if (!isRoomFor(await storage.servers.ownedBy(caller.user_id), limitsOf(caller.tier).max_servers))
      throw fail("server_limit")
    const workers = await workersOf(caller.user_id)
    const { name, description = null } = body
    return create(serverActor, { type: "createServer", owner: actorOf(caller), name, description, workers })
  },

  getServer: ({ params, caller }) => ask(serverActor, params.server_id, { type: "readServer", user: caller.user_id }),

  async deleteServer({ params, caller }) {
    await ask(serverActor, params.server_id, { type: "deleteServer", user: caller.user_id })
    return success
  },

  async leaveServer({ params, caller }) {
    await ask(serverActor, params.server_id, { type: "leave", user: caller.user_id })
    return success
  },
})
