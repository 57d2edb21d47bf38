import { serverActor } from "../../actors/server.ts"
import { success } from "../../contract/core/fields.ts"
import type { routes } from "../../contract/communities/roles.ts"
import { changedBy } from "../shared/changes.ts"
import type { Handlers } from "../server/handlers.ts"
import { shownMember } from "./members.ts"
import type { Http } from "../shared/http.ts"

export const roles = ({ ask, storage }: Http<"users">): Handlers<typeof routes> => ({
  listRoles: ({ params, caller }) => ask(serverActor, params.server_id, { type: "listRoles", user: caller.user_id }),

  createRole: ({ params, body, caller, ...how }) =>
    ask(serverActor, params.server_id, { type: "createRole", ...changedBy(caller, how), role: body }),

  editRole: ({ params: { server_id, role_id }, body, caller, ...how }) =>
    ask(serverActor, server_id, { type: "editRole", ...changedBy(caller, how), role_id, patch: body }),

  async deleteRole({ params: { server_id, role_id }, caller, ...how }) {
    await ask(serverActor, server_id, { type: "deleteRole", ...changedBy(caller, how), role_id })
    return success
  },

  async giveRole({ params: { server_id, member_id, role_id }, caller, reason }) {
    const shown = await shownMember(storage, member_id)
    await ask(serverActor, server_id, { type: "giveRole", user: caller.user_id, reason, member_id, role_id, shown })
    return success
  },

  async takeRole({ params: { server_id, member_id, role_id }, caller, reason }) {
    const shown = await shownMember(storage, member_id)
    await ask(serverActor, server_id, { type: "takeRole", user: caller.user_id, reason, member_id, role_id, shown })
    return success
  },
})
