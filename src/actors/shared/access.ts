import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Permission } from "../../contract/core/permissions.ts"
import { participant } from "../../domain/social/directs.ts"
import type { Override } from "../../domain/core/overrides.ts"
import { holds, holdsIn, holdsNow, rankOf } from "../../domain/core/permissions.ts"
import type { MemberState, ServerState } from "../../domain/communities/servers.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { memberFacts } from "./member-facts.ts"

/** The checks that commands of a server's home begin with. */

type Server = Readonlied<ServerState>
type Member = Readonlied<MemberState>

/**
 * The caller's membership, or 403: the server exists, but not for them. A conversation of others is
 * answered as if it were not there.
 */
export function requireMember(server: Server, user: Snowflake): Member {
  if (server.participants !== null) {
    if (!server.participants.includes(user)) throw fail("channel_not_found")
    return participant(user)
  }
  const found = memberFacts.of(server).get(user)
  if (!found) throw fail("access_denied")
  return found
}

export function requirePermission(server: Server, caller: Member, permission: Permission): void {
  if (!holds(server, caller, permission)) throw fail("permission_denied", { permission })
}

/**
 * What a member may do in a channel at one moment. Time-outs count: who is timed out may not do
 * everything that they are granted.
 */
export class Access {
  readonly server: Server
  readonly member: Member
  /** Unix milliseconds. */
  readonly nowMs: number
  readonly #overrides: readonly Override[]

  constructor(server: Server, channel: Snowflake, member: Member, nowMs: number) {
    this.server = server
    this.member = member
    this.nowMs = nowMs
    this.#overrides = server.overrides.get(channel) ?? none
  }

  may(permission: Permission): boolean {
    return holdsNow(this.server, this.#overrides, this.member, permission, this.nowMs)
  }

  /** Whether the member views the channel and may do this in it. */
  sees(permission: Permission): boolean {
    return this.mayView() && this.may(permission)
  }

  mayView(): boolean {
    return holdsIn(this.server, this.#overrides, this.member, "channels.view")
  }

  require(permission: Permission): void {
    if (!this.may(permission)) throw fail("permission_denied", { permission })
  }

  /** As `require`, but who lacks it only because they are timed out is told so, and until when. */
  requireFree(permission: Permission): void {
    if (this.may(permission)) return
    throw holdsIn(this.server, this.#overrides, this.member, permission)
      ? fail("timed_out", { extra: { timeout_until: this.member.timeout_until } })
      : fail("permission_denied", { permission })
  }
}

const none: readonly Override[] = []

/** Access of somebody who views the channel, or 403: the channel exists, but not for them. */
export function accessOf(server: Server, channel: Snowflake, user: Snowflake, nowMs: number): Access {
  const access = new Access(server, channel, requireMember(server, user), nowMs)
  if (!access.mayView()) throw fail("access_denied")
  return access
}

export const mayView = (server: Server, channel: Snowflake, caller: Member): boolean =>
  holdsIn(server, server.overrides.get(channel) ?? none, caller, "channels.view")

/**
 * Only what ranks strictly lower may be touched; the owner may touch everything but their own
 * membership.
 */
export function requireRank(server: Server, caller: Member, rank: number): void {
  if (rank >= rankOf(server, caller)) throw fail("rank_too_low")
}
