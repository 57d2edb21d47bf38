import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { guildMemberUpdate } from "../../contract/communities/roles.ts"
import type { Member } from "../../contract/communities/servers.ts"
import { changesOf, type Changes } from "../../domain/communities/audit.ts"
import { membersOf } from "../../domain/core/audience.ts"
import { secondsAt } from "../../std/clock.ts"
import { holds, rankOf } from "../../domain/core/permissions.ts"
import { memberObject, type MemberState, type ServerState } from "../../domain/communities/servers.ts"
import type { Actor } from "../../domain/accounts/accounts.ts"
import { updateMember } from "../../storage/communities/guild-members.ts"
import { requireMember, requirePermission, requireRank } from "../shared/access.ts"
import { audit, memberTarget, type AuditContext } from "../shared/audit.ts"
import { member, memberFacts } from "../shared/member-facts.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { voiceRechecks } from "../voice/voice.ts"

/**
 * What a server knows of its members, among its home's commands. They keep:
 *   MEM1  A member can change only members of a lower rank, and always their own nickname.
 *   MEM2  The owner and administrators are never timed out.
 */
export interface MemberCommands {
  /** Refuses a user who is not a member; returns which roles exist. */
  requireMember(input: { user: Snowflake }): { server_id: Snowflake; roles: Snowflake[] }
  /** `target` is the member as shown to others. */
  editMember(input: AuditContext & { member_id: Snowflake; target: Actor; patch: MemberPatch }): Member
}

/** Null: none from now on; left out: as before. */
export interface MemberPatch {
  readonly nickname?: string | null | undefined
  readonly timeout?: Timeout | null | undefined
}
/** Until when, in Unix seconds, or for how many seconds from now on. */
type Timeout = ({ readonly until: number } | { readonly seconds: number }) & { readonly reason: string | null }

type Server = Readonlied<ServerState>
type KnownMember = Readonlied<MemberState>

export const memberCommands: ActorKind<ServerState, ServerState, MemberCommands>["commands"] = {
  requireMember: {
    needs: ({ user }) => [member(user)],
    turn({ state: server }, { user }) {
      requireMember(server, user)
      return { reply: { server_id: server.id, roles: [...server.roles.keys()] } }
    },
  },

  editMember: {
    needs: ({ user, member_id }) => [member(user), member(member_id)],
    turn(context, { user, reason, member_id, target: shown, patch: { nickname, timeout } }) {
      const { state: server, now } = context
      const caller = requireMember(server, user)
      const isOther = user !== member_id
      if (nickname !== undefined && isOther) requirePermission(server, caller, "members.manage_nicknames")
      if (timeout !== undefined) requirePermission(server, caller, "members.kick")
      const target = memberFacts.of(server).get(member_id)
      if (!target) throw fail("member_not_found")
      if ((nickname !== undefined && isOther) || timeout !== undefined)
        requireRank(server, caller, rankOf(server, target)) // MEM1
      const edited: MemberState = { ...target, ...(nickname !== undefined && { nickname }) }
      if (timeout !== undefined) {
        edited.timeout_until = timeout && untilOf(timeout, now)
        edited.timeout_reason = timeout && timeout.reason
        if (timeout && !mayBeTimedOut(server, target)) throw fail("administrator_timeout") // MEM2
      }
      const reply = memberObject(server, edited, shown)
      const changes = memberChanges(target, edited)
      if (Object.keys(changes).length === 0) return { reply }
      const why = reason ?? timeout?.reason ?? undefined
      audit({ ...context, user, reason: why }, "MEMBER_UPDATE", memberTarget(member_id), changes)
      return { ...memberChange(server, edited, shown), reply }
    },
  },
}

/** MEM2: what they would lose they hold all the same. */
export const mayBeTimedOut = (server: Server, target: KnownMember): boolean => !holds(server, target, "administrator")

/**
 * Times a member out until `until`, in Unix seconds; null ends the time-out. Check `mayBeTimedOut`
 * before. `shown` is the member as others see them.
 */
export const timingOut = (
  server: Server,
  target: KnownMember,
  until: number | null,
  reason: string | null,
  shown: Readonly<Actor>,
) => memberChange(server, { ...target, timeout_until: until, timeout_reason: reason }, shown)

/**
 * What the audit log says of it. Names of people are no part of it, so of nicknames it says only
 * whether there is one.
 */
export function memberChanges(before: KnownMember, after: KnownMember): Changes {
  const changes = changesOf(before, after, ["timeout_until", "timeout_reason"])
  if (before.nickname === after.nickname) return changes
  return { nickname: { old: before.nickname !== null, new: after.nickname !== null }, ...changes }
}

/** A member after a change: a member who is timed out leaves voice. */
export function memberChange(server: Server, changed: KnownMember, shown: Readonly<Actor>) {
  return {
    apply: (draft: ServerState) => {
      memberFacts.of(draft).set(changed.user_id, { ...changed })
    },
    write: [updateMember({ ...changed, server_id: server.id })],
    publish: [
      memberTold(server, changed, shown),
      ...voiceRechecks(server, ({ user_id }) => user_id === changed.user_id),
    ],
  }
}

/** What members are told about one of them, with the account's facts, which have an event of their own. */
export function memberTold(server: Server, changed: KnownMember, shown: Readonly<Actor>) {
  const { username, avatar_url, badges, bot, ...facts } = memberObject(server, changed, shown)
  return guildMemberUpdate.to(membersOf(server.id), {
    guild_id: server.id,
    server_id: server.id,
    user: { id: changed.user_id, username, avatar_url },
    username,
    avatar_url,
    badges,
    bot,
    ...facts,
    ...(changed.nickname === null ? {} : { nick: changed.nickname }),
  })
}

function untilOf(timeout: Timeout, now: number): number {
  const seconds = secondsAt(now)
  const until = "until" in timeout ? timeout.until : seconds + timeout.seconds
  if (until <= seconds || until > seconds + limits.timeoutSeconds) throw fail("invalid_timeout")
  return until
}
