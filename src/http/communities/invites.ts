import { randomInt } from "node:crypto"
import { channelActor } from "../../actors/channel.ts"
import { serverActor } from "../../actors/server.ts"
import { fail, Failure } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import type { routes } from "../../contract/communities/invites.ts"
import { isOver } from "../../domain/communities/invites.ts"
import { actorOf, type Handlers } from "../server/handlers.ts"
import { createServerSlots } from "../accounts/server-slots.ts"
import type { Http, Live } from "../shared/http.ts"

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
const codeLength = 12

/**
 * 71 bits: two codes are the same once in a great while, and then the database refuses the second.
 */
const newCode = () => Array.from({ length: codeLength }, () => alphabet[randomInt(alphabet.length)]).join("")

/** The server went after the look; its invites went with it. */
const orServerIsGone = (error: unknown): never => {
  if (error instanceof Failure && error.code === "server_not_found") throw fail("invite_not_found")
  throw error
}

export function invites(
  http: Http<"invites" | "servers"> & { readonly live: Pick<Live, "workersOf"> },
): Handlers<typeof routes> {
  const { ask, storage, live, clock } = http
  const withServerSlot = createServerSlots(http)

  return {
    createInvite: ({ params, body, caller, reason }) =>
      ask(channelActor, params.channel_id, {
        type: "createInvite",
        user: caller.user_id,
        reason,
        code: newCode(),
        ...body,
      }),

    async listInvites({ params: { server_id }, caller }) {
      await ask(serverActor, server_id, { type: "requireInvites", user: caller.user_id })
      return storage.invites.list(server_id)
    },

    async getInvite({ params }) {
      const invite = await storage.invites.withServer(params.invite_code)
      if (!invite || isOver(invite, clock())) throw fail("invite_not_found")
      const { code, server_id, server_name, channel_id, inviter_id, uses, max_uses, expires_at } = invite
      return { code, server_id, server_name, channel_id, inviter_id, uses, max_uses, expires_at }
    },

    async joinByInvite({ params, caller }) {
      const code = params.invite_code
      const [invite, workers] = await Promise.all([storage.invites.find(code), live.workersOf(caller.user_id)])
      if (!invite) throw fail("invite_not_found")
      const joining = { type: "join", user: actorOf(caller), code, workers } as const
      const { server_id } = await withServerSlot(caller, { owns: false, joins: true }, lack =>
        ask(serverActor, invite.server_id, { ...joining, isFull: lack !== undefined }).catch(orServerIsGone),
      )
      return { success: true, server_id }
    },

    async deleteInvite({ params: { invite_code: code }, caller, reason }) {
      const invite = await storage.invites.find(code)
      if (!invite) throw fail("invite_not_found")
      const revoking = { type: "revokeInvite", user: caller.user_id, reason, code } as const
      await ask(serverActor, invite.server_id, revoking).catch(orServerIsGone)
      return success
    },
  }
}
