import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { inviteCreate, inviteDelete, type Invite } from "../../contract/communities/invites.ts"
import { expireInvite } from "../../contract/core/jobs.ts"
import { limits } from "../../contract/core/limits.ts"
import { changesOf } from "../../domain/communities/audit.ts"
import { holdersOf } from "../../domain/core/audience.ts"
import { secondsAt } from "../../std/clock.ts"
import { holds } from "../../domain/core/permissions.ts"
import { isOver, type InviteState } from "../../domain/communities/invites.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { ChannelState } from "../../domain/core/channels.ts"
import { deleteInvite, endInvite, forgetEndedInvites, insertInvite } from "../../storage/communities/invites.ts"
import { accessOf, requireMember, requirePermission } from "../shared/access.ts"
import { audit, type AuditContext } from "../shared/audit.ts"
import { member } from "../shared/member-facts.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import type { Need } from "../../runtime/facts.ts"
import { defineFact } from "../shared/facts.ts"

/**
 * Invites: made where they lead to, kept and ended by their server. One that was revoked is gone.
 */
export interface InviteChannelCommands {
  createInvite(
    input: AuditContext & {
      code: string
      max_age?: number | undefined
      max_uses?: number | undefined
      temporary?: boolean | undefined
    },
  ): Invite
}

export interface InviteServerCommands {
  /** Refuses a user who may not see the invites. */
  requireInvites(input: { user: Snowflake }): { server_id: Snowflake }
  revokeInvite(input: AuditContext & { code: string }): { revoked: true }
  /** Ends an invite whose time is over; nothing happens to any other. */
  expireInvite(input: { code: string }): { ended: boolean }
}

export const inviteFacts = defineFact<ServerState, InviteState>({
  keep: 100,
  load: (storage, server, codes) => storage.invites.ofServer(server, codes),
})
const inviteCounts = defineFact<ServerState, number>({
  keep: 1,
  load: async (storage, server) => new Map([["", await storage.invites.count(server)]]),
})
export const invite = (code: string): Need<ServerState> => inviteFacts.need(code)
export const inviteCount = inviteCounts.need("")

export const inviteChannelCommands: ActorKind<ServerState, ChannelState, InviteChannelCommands>["commands"] = {
  createInvite: {
    needs: ({ user }) => [member(user), inviteCount],
    turn(context, { user, reason, code, max_age = limits.inviteDefaultAge, max_uses = 0, temporary = false }) {
      const { state: channel, home: server, now } = context
      accessOf(server, channel.id, user, now).require("invites.create")
      const count = countOf(server)
      if (count >= limits.invitesPerServer) throw fail("invite_limit")
      const created_at = secondsAt(now)
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
        ended_at: null,
      }
      audit(
        { ...context, user, reason },
        "INVITE_CREATE",
        { type: "invite", id: code },
        changesOf(null, invite, ["channel_id", "max_age", "max_uses", "temporary"]),
      )
      return {
        apply: draft => {
          inviteFacts.of(draft).set(code, { ...invite })
          inviteCounts.of(draft).set("", count + 1)
        },
        write: [insertInvite(invite)],
        publish: [
          inviteCreate.to(holdersOf(server.id, "server.manage"), shownInvite(server, invite)),
          ...(invite.expires_at === null
            ? []
            : [
                expireInvite.at(
                  { server_id: server.id, code },
                  { key: `invite:${code}`, runAtMs: invite.expires_at * 1000 },
                ),
              ]),
        ],
        reply: shown(invite),
      }
    },
  },
}

export const inviteServerCommands: ActorKind<ServerState, ServerState, InviteServerCommands>["commands"] = {
  requireInvites: {
    needs: ({ user }) => [member(user)],
    turn({ state: server }, { user }) {
      const caller = requireMember(server, user)
      if (!holds(server, caller, "server.manage")) requirePermission(server, caller, "invites.manage")
      return { reply: { server_id: server.id } }
    },
  },

  revokeInvite: {
    needs: ({ user, code }) => [member(user), invite(code), inviteCount],
    turn(context, { user, reason, code }) {
      const { state: server, now } = context
      const found = inviteFacts.of(server).get(code)
      if (!found || isOver(found, now)) throw fail("invite_not_found")
      const caller = requireMember(server, user)
      if (found.inviter_id !== user && !holds(server, caller, "server.manage"))
        requirePermission(server, caller, "invites.manage")
      const { apply, write, publish } = inviteRevocation(server, found)
      const changes = changesOf(found, null, ["channel_id", "max_age", "max_uses", "temporary", "uses"])
      audit({ ...context, user, reason }, "INVITE_DELETE", { type: "invite", id: code }, changes)
      return {
        apply,
        write,
        publish,
        reply: { revoked: true },
      }
    },
  },

  expireInvite: {
    needs: ({ code }) => [invite(code), inviteCount],
    turn({ state: server, now }, { code }) {
      const ended = inviteFacts.of(server).get(code)
      if (!ended || ended.ended_at !== null || ended.expires_at === null || ended.expires_at > secondsAt(now))
        return { reply: { ended: false } }
      return { ...inviteEnding(server, ended, now), reply: { ended: true } }
    },
  },
}

const inviteRevocation = (server: Server, revoked: Readonlied<InviteState>) => ({
  apply: (draft: ServerState) => {
    inviteFacts.of(draft).set(revoked.code, null)
    countOneLess(draft)
  },
  write: [deleteInvite({ code: revoked.code })],
  publish: [inviteDelete.to(holdersOf(server.id, "server.manage"), shownInvite(server, revoked))],
})

/** An invite expires or is used up: it stays in the list. `now` in Unix milliseconds. */
export const inviteEnding = (server: Server, ending: Readonlied<InviteState>, now: number) => {
  const ended_at = secondsAt(now)
  const { code, server_id, uses } = ending
  return {
    apply: (draft: ServerState) => {
      inviteFacts.of(draft).set(code, { ...ending, ended_at })
      countOneLess(draft)
    },
    write: [endInvite({ code, uses, ended_at }), forgetEndedInvites({ server_id })],
    publish: [inviteDelete.to(holdersOf(server.id, "server.manage"), shownInvite(server, ending))],
  }
}

const countOneLess = (draft: ServerState): void => {
  const count = inviteCounts.of(draft).get("")
  if (count) inviteCounts.of(draft).set("", count - 1)
}

type Server = Readonlied<ServerState>

/** Invites to a channel that is gone lead to the server. */
export function forgetInvitesTo(draft: ServerState, channel: Snowflake): void {
  const invites = inviteFacts.of(draft)
  for (const [code, known] of invites)
    if (known?.channel_id === channel) invites.set(code, { ...known, channel_id: null })
}

const countOf = (server: Server): number => inviteCounts.of(server).get("") ?? 0

const shown = ({ ended_at: _endedAt, ...facts }: Readonlied<InviteState>): Invite => facts

/** The channel may have gone. */
const shownInvite = (server: Server, { channel_id, ...facts }: Readonlied<InviteState>) => ({
  ...shown({ ...facts, channel_id: channel_id !== null && server.channels.has(channel_id) ? channel_id : null }),
  guild_id: server.id,
})
