import { randomInt } from "node:crypto"
import { channelActor } from "../actors/channel.ts"
import { serverActor } from "../actors/server.ts"
import { fail, Failure } from "../contract/errors.ts"
import type { routes } from "../contract/invites.ts"
import { actorOf, type Handlers, type Http } from "./handlers.ts"

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
const codeLength = 12

/** 71 bits: two codes are the same once in a great while, and then the database refuses the second. */
const newCode = () => Array.from({ length: codeLength }, () => alphabet[randomInt(alphabet.length)]).join("")

export const invites = ({ ask, storage, workersOf, clock }: Http): Handlers<typeof routes> => ({
  createInvite: ({ params, body, caller, reason }) =>
    ask(channelActor, params.channel_id, {
      type: "createInvite",
      user: caller.user_id,
      reason,
      code: newCode(),
      ...body,
    }),

  async getInvite({ params }) {
    const invite = await storage.invites.withServer(params.invite_code)
    const isOver =
      !invite ||
      (invite.expires_at !== null && invite.expires_at * 1000 <= clock()) ||
      (invite.max_uses > 0 && invite.uses >= invite.max_uses)
    if (isOver) throw fail("invite_not_found")
    const { code, server_id, server_name, channel_id, inviter_id, uses, max_uses, expires_at } = invite
    return { code, server_id, server_name, channel_id, inviter_id, uses, max_uses, expires_at }
  },

  async joinByInvite({ params, caller }) {
    const code = params.invite_code
    const [invite, workers] = await Promise.all([storage.invites.find(code), workersOf(caller.user_id)])
    if (!invite) throw fail("invite_not_found")
    const joining = { type: "join", user: actorOf(caller), code, workers } as const
    const { server_id } = await ask(serverActor, invite.server_id, joining).catch((error: unknown) => {
      // The server went after the look; its invites went with it.
      if (error instanceof Failure && error.code === "server_not_found") throw fail("invite_not_found")
      throw error
    })
    return { success: true, server_id }
  },
})
