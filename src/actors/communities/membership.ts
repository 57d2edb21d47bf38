import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { deleteMessagesOf } from "../../contract/core/jobs.ts"
import { limits } from "../../contract/core/limits.ts"
import { guildBanAdd, guildBanRemove } from "../../contract/communities/moderation.ts"
import { guildMemberAdd, guildMemberRemove } from "../../contract/communities/servers.ts"
import { userUpdate } from "../../contract/accounts/users.ts"
import { holdersOf, membersOf, userOnly } from "../../domain/core/audience.ts"
import { secondsAt } from "../../std/clock.ts"
import { isOver } from "../../domain/communities/invites.ts"
import { holds, rankOf } from "../../domain/core/permissions.ts"
import {
  guildObject,
  memberObject,
  newMember,
  type BanState,
  type MemberState,
  type ServerState,
  type TimeoutState,
} from "../../domain/communities/servers.ts"
import { firstIdAt } from "../../domain/core/snowflake.ts"
import type { Actor } from "../../domain/accounts/accounts.ts"
import { deleteBan, putBan } from "../../storage/communities/bans.ts"
import { deleteLeftTimeout, putLeftTimeout, updateMember } from "../../storage/communities/guild-members.ts"
import { putMessageDeletion } from "../../storage/messages/messages.ts"
import { setInviteUses } from "../../storage/communities/invites.ts"
import { deleteNotificationSettings } from "../../storage/accounts/notification-settings.ts"
import { deleteMember, insertMember, setMemberCount, setMemberRoles } from "../../storage/communities/servers.ts"
import type { ServerAccountCommands } from "../accounts/account.ts"
import { requireMember, requirePermission, requireRank } from "../shared/access.ts"
import { audit, memberTarget, type AuditContext, type AuditedTurn } from "../shared/audit.ts"
import { inviteEnding, invite, inviteCount, inviteFacts } from "./invites.ts"
import { membershipChanged } from "./memberships.ts"
import { ownRolesDeletion } from "./roles.ts"
import { member, memberFacts } from "../shared/member-facts.ts"
import { combine, type HomeEffects } from "../shared/effects.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { Need } from "../../runtime/facts.ts"
import { defineFact } from "../shared/facts.ts"
import { control, type ActorKind } from "../../runtime/actor.ts"
import { voiceEnding } from "../voice/voice.ts"

/**
 * Who is in a server and who may not come in, among its home's commands. They keep:
 *   JOIN1  `member_count` is the number of members.
 *   JOIN2  A use of an invite is counted once, and never above `max_uses`.
 *   JOIN3  A former member receives nothing that was appended after the response.
 *   JOIN4  Leaving and rejoining does not end a time-out.
 */
export interface MembershipCommands extends ServerAccountCommands {
  /**
   * `workers` hold the user's gateway sessions: their logs take the server's events from the join
   * on.
   */
  join(input: Joining & { code: string }): { server_id: Snowflake }
  /** The same without an invite, where the server is open to everybody. */
  joinPublic(input: Joining): { server_id: Snowflake }
  /** The same for somebody whom the operator's configuration brings here by a group of theirs. */
  joinMapped(input: Joining): { server_id: Snowflake }
  leave(input: { user: Snowflake }): { left: true }
  kick(input: AuditContext & { member_id: Snowflake }): { kicked: true }
  /** A temporary member has disconnected for good: the membership ends. */
  endTemporary(input: { user: Snowflake }): { ended: boolean }
  /**
   * Any existing user may be banned, member or not; `username` is null for a user who does not
   * exist. What they wrote in the last `days` is deleted.
   */
  ban(input: AuditContext & { target_id: Snowflake; username: string | null; reason: string; days: number }): {
    banned: true
  }
  unban(input: AuditContext & { target_id: Snowflake; username: string }): { unbanned: true }
  /** Refuses a user who may not see the bans. */
  requireBans(input: { user: Snowflake }): { server_id: Snowflake }
  /**
   * An account is purged: it is neither a member nor banned any longer. An owner stays, because
   * their server is deleted.
   */
  eraseUser(input: { user: Snowflake }): { erased: boolean }
}

export interface Joining {
  user: Actor
  workers: string[]
  /** The user is in as many servers as they may be. */
  isFull: boolean
}

export const banFacts = defineFact<ServerState, BanState>({
  keep: 100,
  load: (storage, server, users) => storage.bans.find(server, users),
})
/** Time-outs of people who left during them. */
const leftTimeoutFacts = defineFact<ServerState, TimeoutState>({
  keep: 100,
  load: (storage, server, users) => storage.guildMembers.leftTimeouts(server, users),
})
export const ban = (user: Snowflake): Need<ServerState> => banFacts.need(user)
export const leftTimeout = (user: Snowflake): Need<ServerState> => leftTimeoutFacts.need(user)

type Commands = ActorKind<ServerState, ServerState, MembershipCommands>["commands"]

const joinCommands: Pick<Commands, "join" | "joinPublic" | "joinMapped"> = {
  join: {
    needs: ({ user, code }) => [member(user.id), ban(user.id), leftTimeout(user.id), invite(code), inviteCount],
    turn(context, { code, ...joining }) {
      const { state: server, now } = context
      const { user } = joining
      const used = inviteFacts.of(server).get(code)
      if (!used || isOver(used, now)) throw fail("invite_not_found") // JOIN2
      if (memberFacts.of(server).get(user.id)) throw fail("already_member")
      if (banFacts.of(server).get(user.id)) throw fail("banned")
      const uses = used.uses + 1
      const after = { ...used, uses }
      const joined = joins(server, joining, context, { temporary: used.temporary })
      const ending = isOver(after, now) ? inviteEnding(server, after, now) : undefined
      audit(
        { ...context, user: user.id },
        "INVITE_USE",
        { type: "invite", id: code },
        { uses: { old: used.uses, new: uses } },
      )
      return {
        ...joined,
        apply: draft => {
          joined.apply(draft)
          inviteFacts.of(draft).get(code)!.uses = uses
          ending?.apply(draft)
        },
        write: [...joined.write, ...(ending?.write ?? [setInviteUses({ code, uses })])],
        publish: [...joined.publish, ...(ending?.publish ?? [])],
        reply: { server_id: server.id },
      }
    },
  },

  joinPublic: {
    needs: ({ user }) => [member(user.id), ban(user.id), leftTimeout(user.id)],
    turn(context, joining) {
      const { state: server } = context
      const { id } = joining.user
      if (memberFacts.of(server).get(id)) throw fail("already_member")
      if (!server.public) throw fail("access_denied")
      if (banFacts.of(server).get(id)) throw fail("banned")
      return { ...joins(server, joining, context), reply: { server_id: server.id } }
    },
  },

  joinMapped: {
    needs: ({ user }) => [member(user.id), ban(user.id), leftTimeout(user.id)],
    turn(context, joining) {
      const { state: server } = context
      const { id } = joining.user
      if (memberFacts.of(server).get(id)) throw fail("already_member")
      if (banFacts.of(server).get(id)) throw fail("banned")
      return { ...joins(server, joining, context), reply: { server_id: server.id } }
    },
  },
}

/** What else ends when a member is kicked. */
export interface Kicking {
  readonly needs: readonly Need<ServerState>[]
  readonly effects: (server: Readonlied<ServerState>, user: Snowflake) => Pick<HomeEffects, "apply" | "write">
}

const leaveCommands = (kicking: Kicking): Pick<Commands, "leave" | "kick" | "endTemporary"> => ({
  leave: {
    needs: ({ user }) => [member(user)],
    turn(context, { user }) {
      const { state: server } = context
      requireMember(server, user)
      if (server.owner_id === user) throw fail("owner_cannot_leave")
      const by = { ...context, user }
      audit(by, "MEMBER_LEAVE", memberTarget(user))
      return { ...removal(server, user, by), reply: { left: true } }
    },
  },

  kick: {
    needs: ({ user, member_id }) => [member(user), member(member_id), ...kicking.needs],
    turn(context, { user, reason, member_id }) {
      const { state: server } = context
      const caller = requireMember(server, user)
      requirePermission(server, caller, "members.kick")
      const target = memberFacts.of(server).get(member_id)
      if (!target) throw fail("member_not_found")
      requireRank(server, caller, rankOf(server, target))
      const by = { ...context, user, reason }
      audit(by, "MEMBER_KICK", memberTarget(member_id))
      return { ...kicked(server, member_id, by, kicking), reply: { kicked: true } }
    },
  },

  endTemporary: {
    needs: ({ user }) => [member(user)],
    turn(context, { user }) {
      const { state: server } = context
      if (!memberFacts.of(server).get(user)?.temporary || server.owner_id === user) return { reply: { ended: false } }
      const by = { ...context, user, reason: "temporary membership ended" }
      audit(by, "MEMBER_KICK", memberTarget(user))
      return { ...removal(server, user, by), reply: { ended: true } }
    },
  },
})

const banCommands: Pick<Commands, "ban" | "unban" | "requireBans"> = {
  ban: {
    needs: ({ user, target_id }) => [member(user), member(target_id), ban(target_id)],
    turn(context, { user, target_id, username, reason, days }) {
      const { state: server } = context
      const caller = requireMember(server, user)
      requirePermission(server, caller, "members.ban")
      if (username === null) throw fail("server_or_user_not_found")
      const found = memberFacts.of(server).get(target_id)
      requireRank(server, caller, rankOf(server, found ?? { user_id: target_id, roles: [] }))
      const by = { user, reason }
      return { ...banning(server, { target_id, username, days }, by, context), reply: { banned: true } }
    },
  },

  unban: {
    needs: ({ user, target_id }) => [member(user), ban(target_id)],
    turn(context, { user, reason, target_id, username }) {
      const { state: server } = context
      requirePermission(server, requireMember(server, user), "members.ban")
      if (!banFacts.of(server).get(target_id)) throw fail("ban_not_found")
      audit({ ...context, user, reason }, "MEMBER_UNBAN", memberTarget(target_id))
      return {
        apply: draft => {
          banFacts.of(draft).set(target_id, null)
        },
        write: [deleteBan({ server_id: server.id, user_id: target_id })],
        publish: [
          guildBanRemove.to(holdersOf(server.id, "members.ban"), {
            guild_id: server.id,
            server_id: server.id,
            user: { id: target_id, username },
          }),
        ],
        reply: { unbanned: true },
      }
    },
  },

  requireBans: {
    needs: ({ user }) => [member(user)],
    turn({ state: server }, { user }) {
      const caller = requireMember(server, user)
      if (!holds(server, caller, "bans.view")) requirePermission(server, caller, "members.ban")
      return { reply: { server_id: server.id } }
    },
  },
}

/** Changes the name of a member in all messages that a home has in memory. */
export type RenameAuthor = (draft: ServerState, user: Snowflake, name: string, badges: readonly string[]) => void

export const membershipCommands = (renameAuthor: RenameAuthor, kicking: Kicking): Commands => ({
  ...joinCommands,
  ...leaveCommands(kicking),
  ...banCommands,

  memberChanged: {
    forListeners: true,
    turn: ({ state: server }, { user }) => ({
      remember: draft => renameAuthor(draft, user.id, user.username, user.badges),
      publish: [userUpdate.to(membersOf(server.id), user, { except: [user.id] })],
      reply: undefined,
    }),
  },

  eraseUser: {
    needs: ({ user }) => [member(user), ban(user)],
    turn(context, { user }) {
      const { state: server } = context
      const by = { ...context, user, reason: "account deleted" }
      const isLeaving = memberFacts.of(server).get(user) && server.owner_id !== user
      const left = isLeaving ? removal(server, user, by, true) : ownRolesDeletion(server, user, by)
      const isBanned = Boolean(banFacts.of(server).get(user))
      if (!left && !isBanned) return { reply: { erased: false } }
      return {
        apply: draft => {
          left?.apply(draft)
          banFacts.of(draft).set(user, null)
        },
        write: [...(left?.write ?? []), ...(isBanned ? [deleteBan({ server_id: server.id, user_id: user })] : [])],
        publish: left?.publish ?? [],
        reply: { erased: true },
      }
    },
  },
})

/**
 * The effects of a ban, for all callers: the member is removed, and so is what they wrote in the
 * last `days`. The caller checks before whether the user may be banned and whether they are known
 * to be a member.
 */
export function banning(
  server: Readonlied<ServerState>,
  { target_id, username, days }: { target_id: Snowflake; username: string; days: number },
  { user, reason = "" }: AuditContext,
  turn: AuditedTurn,
) {
  const { now, newId } = turn
  const before = banFacts.of(server).get(target_id)
  const banned: BanState = {
    user_id: target_id,
    reason,
    banned_by: user,
    banned_at: before?.banned_at ?? secondsAt(now),
  }
  const by = { ...turn, user, reason }
  const removed = memberFacts.of(server).get(target_id) ? removal(server, target_id, by) : undefined
  const written = {
    server_id: server.id,
    user_id: target_id,
    after: firstIdAt(now - days * 86_400_000),
    before: newId(),
  }
  const deletion = deleteMessagesOf.at(written, {
    key: `ban:${server.id}:${target_id}:${now}`,
  })
  const told = guildBanAdd.to(holdersOf(server.id, "members.ban"), {
    guild_id: server.id,
    server_id: server.id,
    user: { id: target_id, username },
  })
  audit(by, "MEMBER_BAN", memberTarget(target_id))
  return {
    apply: (draft: ServerState) => {
      banFacts.of(draft).set(target_id, banned)
      removed?.apply(draft)
    },
    write: [
      putBan({ ...banned, server_id: server.id }),
      ...(days > 0 ? [putMessageDeletion(written)] : []),
      ...(removed?.write ?? []),
    ],
    publish: [...(removed?.publish ?? []), ...(before ? [] : [told]), ...(days > 0 ? [deletion] : [])],
  }
}

/**
 * The effects of joining a server, by any way in: the caller checks before whether the user may
 * join.
 */
export function joins(
  server: Readonlied<ServerState>,
  { user, workers, isFull }: Joining,
  turn: AuditedTurn,
  { temporary = false, roles = [] }: { temporary?: boolean; roles?: readonly Snowflake[] } = {},
) {
  const { now, newId } = turn
  if (server.member_count >= limits.membersPerServer) throw fail("member_limit")
  if (isFull) throw fail("too_many_servers")
  const seconds = secondsAt(now)
  const left = leftTimeoutFacts.of(server).get(user.id)
  const isStillOut = left !== undefined && left !== null && left.timeout_until > seconds // JOIN4
  const joined: MemberState = {
    ...newMember(user.id, seconds),
    since_id: newId(),
    roles: [...roles],
    temporary,
    ...(isStillOut && left),
  }
  const member_count = server.member_count + 1
  const { server_id: _, ...shown } = { ...memberObject(server, joined, user), server_id: server.id }
  audit({ ...turn, user: user.id }, "MEMBER_JOIN", memberTarget(user.id))
  return {
    apply: (draft: ServerState) => {
      memberFacts.of(draft).set(user.id, joined)
      draft.member_count = member_count
      leftTimeoutFacts.of(draft).set(user.id, null)
    },
    write: [
      insertMember({ ...joined, server_id: server.id }),
      ...(roles.length > 0 ? [setMemberRoles({ server_id: server.id, user_id: user.id, roles })] : []),
      ...(isStillOut ? [updateMember({ ...joined, server_id: server.id })] : []),
      ...(left ? [deleteLeftTimeout({ server_id: server.id, user_id: user.id })] : []),
      setMemberCount({ id: server.id, member_count }),
    ],
    interest: workers,
    publish: [
      control(userOnly(user.id), {
        type: "joined",
        server: server.id,
        user: user.id,
        roles: joined.roles,
        event: guildObject({ ...server, member_count }, joined),
      }),
      guildMemberAdd.to(
        membersOf(server.id),
        {
          ...shown,
          server_id: server.id,
          guild_id: server.id,
          user: { id: user.id, username: user.username, avatar_url: shown.avatar_url },
        },
        { except: [user.id] },
      ),
      membershipChanged(user.id, server.id, true),
    ],
  }
}

/** The effects of a kick, for all callers; the command needs what `kicking` does. */
export const kicked = (
  server: Readonlied<ServerState>,
  user: Snowflake,
  by: AuditedTurn & AuditContext,
  kicking: Kicking,
): HomeEffects => combine(removal(server, user, by), kicking.effects(server, user))

/** The effects of the end of a membership, for all callers. */
function removal(
  server: Readonlied<ServerState>,
  user: Snowflake,
  by: AuditedTurn & AuditContext,
  /** The user will not come back. */
  isForGood = false,
): HomeEffects {
  const { now } = by
  const seconds = secondsAt(now)
  const { timeout_until = null, timeout_reason = null } = memberFacts.of(server).get(user) ?? {}
  const left = !isForGood && timeout_until !== null && timeout_until > seconds && { timeout_until, timeout_reason } // JOIN4
  const member_count = server.member_count - 1
  const inVoice = server.voice.get(user)
  const voice = inVoice && voiceEnding(server, inVoice, now)
  const departure: HomeEffects = {
    apply: draft => {
      voice?.apply(draft)
      memberFacts.of(draft).set(user, null)
      draft.member_count = member_count
      if (left) leftTimeoutFacts.of(draft).set(user, left)
    },
    write: [
      ...(voice?.write ?? []),
      deleteMember({ server_id: server.id, user_id: user }),
      deleteNotificationSettings({ server_id: server.id, user_id: user }),
      setMemberCount({ id: server.id, member_count }),
      ...(left ? [putLeftTimeout({ ...left, server_id: server.id, user_id: user, now: seconds })] : []),
    ],
    publish: [
      ...(voice?.publish ?? []), // told while they are still a member
      control(membersOf(server.id), { type: "left", server: server.id, user }), // JOIN3
      guildMemberRemove.to(membersOf(server.id), { guild_id: server.id, server_id: server.id, user: { id: user } }),
      membershipChanged(user, server.id, false),
    ],
  }
  // Nobody has its role any more, so nobody views another channel.
  return combine(departure, ownRolesDeletion(server, user, by)) // ROLE3
}
