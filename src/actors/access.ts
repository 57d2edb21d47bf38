import { fail } from "../contract/errors.ts"
import type { Snowflake } from "../contract/fields.ts"
import type { Permission } from "../contract/permissions.ts"
import { participant } from "../domain/directs.ts"
import { holds, holdsIn, holdsNow, rankOf } from "../domain/permissions.ts"
import type { MemberState, ServerState } from "../domain/states.ts"
import type { Readonlied } from "../domain/core/readonlied.ts"
import { memberFacts } from "./communities/member-facts.ts"

/** The checks that commands of a server's home begin with. */

type Server = Readonlied<ServerState>
type Member = Readonlied<MemberState>

/** The caller's membership, or 403: the server exists, but not for him. A conversation of others is as if it were not there. */
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

/** The caller's membership, or 403: the channel exists, but not for him. */
export function requireViewer(server: Server, channel: Snowflake, user: Snowflake): Member {
  const caller = requireMember(server, user)
  if (!mayView(server, channel, caller)) throw fail("access_denied")
  return caller
}

export const mayView = (server: Server, channel: Snowflake, caller: Member): boolean =>
  holdsIn(server, server.overrides.get(channel) ?? [], caller, "channels.view")

/** `now`: Unix milliseconds; who is timed out may not do everything that he is granted. */
export const mayIn = (
  server: Server,
  channel: Snowflake,
  caller: Member,
  permission: Permission,
  now: number,
): boolean => holdsNow(server, server.overrides.get(channel) ?? [], caller, permission, now)

export function requirePermissionIn(
  server: Server,
  channel: Snowflake,
  caller: Member,
  permission: Permission,
  now: number,
): void {
  if (!mayIn(server, channel, caller, permission, now)) throw fail("permission_denied", { permission })
}

/** As `requirePermissionIn`, but whoever lacks it only because he is timed out is told so, and until when. */
export function requireFreeIn(
  server: Server,
  channel: Snowflake,
  caller: Member,
  permission: Permission,
  now: number,
): void {
  if (mayIn(server, channel, caller, permission, now)) return
  const isTimedOut = holdsIn(server, server.overrides.get(channel) ?? [], caller, permission)
  throw isTimedOut
    ? fail("timed_out", { extra: { timeout_until: caller.timeout_until } })
    : fail("permission_denied", { permission })
}

/** Only what ranks strictly lower may be touched; the owner may touch everything but himself. */
export function requireRank(server: Server, caller: Member, rank: number): void {
  if (rank >= rankOf(server, caller)) throw fail("rank_too_low")
}
