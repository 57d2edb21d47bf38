import type { Invite } from "../contract/invites.ts"
import { expireInvite } from "../contract/jobs.ts"
import { limits } from "../contract/limits.ts"
import { changesOf } from "../domain/audit.ts"
import type { ChannelState, InviteState, ServerState } from "../domain/states.ts"
import { deleteInvite, insertInvite } from "../storage/invites.ts"
import { requirePermissionIn, requireViewer } from "./access.ts"
import { audited, type Deed } from "./audit.ts"
import { invite, member } from "./needs.ts"
import type { ActorKind } from "./runtime/actor.ts"

/** Invites: made where they lead to, kept and ended by their server. */
export interface InviteChannelCommands {
  createInvite(
    input: Deed & {
      code: string
      max_age?: number | undefined
      max_uses?: number | undefined
      temporary?: boolean | undefined
    },
  ): Invite
}

export interface InviteServerCommands {
  /** Ends an invite whose time is over; nothing happens to any other. */
  expireInvite(input: { code: string }): { ended: boolean }
}

export const inviteChannelCommands: ActorKind<ServerState, ChannelState, InviteChannelCommands>["commands"] = {
  createInvite: {
    needs: ({ user }) => [member(user)],
    turn(
      { state: channel, home: server, now, newId },
      { user, reason, code, max_age = limits.inviteDefaultAge, max_uses = 0, temporary = false },
    ) {
      requirePermissionIn(server, channel.id, requireViewer(server, channel.id, user), "invites.create", now)
      const created_at = Math.floor(now / 1000)
      const invite: InviteState = {
        code,
        server_id: server.id,
        channel_id: channel.id,
        inviter_id: user,
        max_age,
        max_uses,
        temporary,
        uses: 0,
        created_at,
        expires_at: max_age === 0 ? null : created_at + max_age,
      }
      return {
        apply: draft => {
          draft.invites.set(code, { ...invite })
        },
        write: [
          insertInvite(invite),
          audited(
            { now, newId },
            server.id,
            { user, reason },
            "INVITE_CREATE",
            { type: "invite", id: code },
            changesOf(null, invite, ["channel_id", "max_age", "max_uses", "temporary"]),
          ),
        ],
        publish:
          invite.expires_at === null
            ? []
            : [
                expireInvite.at(
                  { server_id: server.id, code },
                  { key: `invite:${code}`, runAtMs: invite.expires_at * 1000 },
                ),
              ],
        reply: invite,
      }
    },
  },
}

export const inviteServerCommands: ActorKind<ServerState, ServerState, InviteServerCommands>["commands"] = {
  expireInvite: {
    needs: ({ code }) => [invite(code)],
    turn({ state: server, now }, { code }) {
      const ended = server.invites.get(code)
      if (!ended || ended.expires_at === null || ended.expires_at > Math.floor(now / 1000))
        return { reply: { ended: false } }
      return {
        apply: draft => {
          draft.invites.set(code, null)
        },
        write: [deleteInvite({ code })],
        reply: { ended: true },
      }
    },
  },
}
