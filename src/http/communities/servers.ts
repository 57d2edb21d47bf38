import { serverActor } from "../../actors/server.ts"
import { userActor } from "../../actors/user.ts"
import type { Heir } from "../../actors/communities/server-settings.ts"
import { fail, Failure } from "../../contract/core/errors.ts"
import { type Snowflake, success } from "../../contract/core/fields.ts"
import type { routes } from "../../contract/communities/servers.ts"
import { tierAt } from "../../domain/accounts/accounts.ts"
import { secondsAt } from "../../std/clock.ts"
import type { UserRow } from "../../storage/accounts/users.ts"
import { actorOf, type Handlers } from "../server/handlers.ts"
import { createIdentityProof } from "../accounts/identity-proof.ts"
import { createServerSlots } from "../accounts/server-slots.ts"
import type { Creates, Http, Live } from "../shared/http.ts"
import type { SignInNeeds } from "../accounts/sign-in.ts"

type ServersNeeds = SignInNeeds & Http<"servers"> & Creates & { readonly live: Pick<Live, "workersOf"> }

const heirOf = (id: Snowflake, found: UserRow | undefined): Heir => ({
  id,
  mayOwn: found !== undefined && !found.bot && found.deletion_status === "active",
})

export function servers(http: ServersNeeds): Handlers<typeof routes> {
  const { ask, create, storage, live, clock } = http
  const withServerSlot = createServerSlots(http)
  const requireIdentity = createIdentityProof(http)

  return {
    listServers: ({ caller }) => storage.servers.ofUser(caller.user_id),

    async createServer({ body, caller }) {
      const workers = await live.workersOf(caller.user_id)
      const { name, description = null } = body
      return withServerSlot(caller, { owns: true, joins: true }, lack => {
        if (lack) throw fail(lack)
        return create(serverActor, { type: "createServer", owner: actorOf(caller), name, description, workers })
      })
    },

    getServer: ({ params, caller }) => ask(serverActor, params.server_id, { type: "readServer", user: caller.user_id }),

    editServer: ({ params, body, caller, reason }) =>
      ask(serverActor, params.server_id, { type: "editServer", user: caller.user_id, reason, patch: body }),

    getServerPermissions: ({ params, query: { channel_id }, caller }) =>
      ask(serverActor, params.server_id, { type: "readPermissions", user: caller.user_id, channel_id }),

    async transferServer({ params: { server_id }, body: { user_id, ...proof }, caller, reason }) {
      const user = caller.user_id
      const found = await storage.users.find(user_id)
      await ask(serverActor, server_id, { type: "requireTransfer", user, heir: heirOf(user_id, found) })
      await requireIdentity(caller, proof, async shown => {
        const { confirmed } = await ask(userActor, user, { type: "confirmIdentity", ...shown })
        return confirmed
      })
      const owner = { user_id, tier: tierAt(found!, secondsAt(clock())), bot: false }
      return withServerSlot(owner, { owns: true, joins: false }, async lack => {
        // Time has passed. From here on the user's home refuses to end the account.
        const heir = heirOf(user_id, await storage.users.find(user_id))
        return ask(serverActor, server_id, { type: "transferServer", user, reason, heir, isFull: lack !== undefined })
      }).catch((error: unknown) => {
        // The user's home knows it first.
        if (error instanceof Failure && error.code === "account_deleted") throw fail("invalid_new_owner")
        throw error
      })
    },

    async joinServer({ params, caller }) {
      const workers = await live.workersOf(caller.user_id)
      const joining = { type: "joinPublic", user: actorOf(caller), workers } as const
      const { server_id } = await withServerSlot(caller, { owns: false, joins: true }, lack =>
        ask(serverActor, params.server_id, { ...joining, isFull: lack !== undefined }),
      )
      return { success: true, server_id }
    },

    async deleteServer({ params, caller }) {
      await ask(serverActor, params.server_id, { type: "deleteServer", user: caller.user_id })
      return success
    },

    async leaveServer({ params, caller }) {
      await ask(serverActor, params.server_id, { type: "leave", user: caller.user_id })
      return success
    },
  }
}
