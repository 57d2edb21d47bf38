import { serverActor } from "../../actors/server.ts"
import { userActor } from "../../actors/user.ts"
import { Failure } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { barToSignIn, tierAt } from "../../domain/accounts/accounts.ts"
import type { OAuthProfile } from "../../domain/accounts/oauth.ts"
import type { SaidGroups } from "../../domain/accounts/one-time-tokens.ts"
import { hasRoles, roleChanges, type OidcIssuer, type OidcPolicy, type RoleChange } from "../../domain/accounts/oidc.ts"
import { secondsAt } from "../../std/clock.ts"
import type { UserRow } from "../../storage/accounts/users.ts"
import type { Http, Live, Policy } from "../shared/http.ts"
import { createServerSlots } from "./server-slots.ts"

export type MappedRolesNeeds = Http<"servers" | "users"> &
  Policy<OidcPolicy> & { readonly live: Pick<Live, "workersOf"> }

/**
 * Gives and takes the roles that the groups of somebody who signs in stand for. It keeps:
 *   OAUTH4  After a sign-in, which a second factor is part of, a member has those roles of the
 *           issuer's mapping that their groups stand for, and no other of the mapping. Roles outside
 *           it stay as they were. Who is not in the server of such a role joins it, unless they are
 *           banned there.
 */
export function createMappedRoles({ ask, storage, policy, live, clock, log }: MappedRolesNeeds) {
  const withServerSlot = createServerSlots({ ask, storage })
  const issuers = new Map(policy.oidc_issuers.map(issuer => [issuer.id, issuer]))

  async function changeIn(server: Snowflake, user: UserRow, isMember: boolean, change: RoleChange, reason: string) {
    const { id, username, bot, badges } = user
    const shown = { id, username, bot, badges }
    if (!isMember) {
      const owner = { user_id: id, tier: tierAt(user, secondsAt(clock())), bot }
      const joining = { type: "joinMapped", user: shown, workers: await live.workersOf(id) } as const
      await withServerSlot(owner, { owns: false, joins: true }, lack =>
        ask(serverActor, server, { ...joining, isFull: lack !== undefined }),
      ).catch((error: unknown) => {
        // In another sign-in of the same person, just now.
        if (!(error instanceof Failure && error.code === "already_member")) throw error
      })
    }
    await ask(serverActor, server, { type: "mapRoles", shown, ...change, reason })
  }

  async function setMappedRoles(user: UserRow, { provider, groups }: SaidGroups): Promise<void> {
    const issuer: OidcIssuer | undefined = issuers.get(provider)
    if (!issuer || !hasRoles(issuer)) return
    if (barToSignIn(user, secondsAt(clock()))) return
    const [serverOf, memberships] = await Promise.all([
      storage.servers.ofRoles(Object.values(issuer.roles).flat()),
      storage.users.memberships([user.id]),
    ])
    const held = new Map(memberships.get(user.id)?.map(({ server_id, roles }) => [server_id, roles]))
    for (const [server, change] of roleChanges(issuer, groups, serverOf, held))
      try {
        await changeIn(server, user, held.has(server), change, `Single sign-on: ${issuer.name}`)
      } catch (error) {
        // A role that could not be taken must not be signed in with.
        if (!(error instanceof Failure) || error.code === "unavailable") throw error
        log.info({ provider, user: user.id, server, code: error.code }, "roles of groups not set")
      }
  }

  /** For a session that has just begun, whose token nobody has yet: it ends where this fails. */
  return async function withMappedRoles(user: UserRow, session_id: Snowflake, said: SaidGroups | null): Promise<void> {
    if (!said) return
    try {
      await setMappedRoles(user, said)
    } catch (error) {
      // Where that fails as well, its time ends it.
      await ask(userActor, user.id, { type: "endSession", session_id }).catch(() => {})
      throw error
    }
  }
}

/** What is to be kept of what a provider says, until the sign-in is complete. */
export function saidGroups(
  { policy }: Policy<OidcPolicy>,
  provider: string,
  { groups }: Pick<OAuthProfile, "groups">,
): SaidGroups | null {
  const issuer = policy.oidc_issuers.find(({ id }) => id === provider)
  if (!issuer || !hasRoles(issuer) || groups === undefined) return null
  return { provider, groups: [...new Set(groups)].filter(group => Object.hasOwn(issuer.roles, group)) }
}
