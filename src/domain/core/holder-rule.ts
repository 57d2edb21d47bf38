import type { Snowflake } from "../../contract/core/fields.ts"
import type { Permission } from "../../contract/core/permissions.ts"
import type { Override } from "./overrides.ts"
import { includes } from "./permission-masks.ts"
import { everyoneHolds, type AccessRules } from "./permissions.ts"

/**
 * Who holds a permission in a channel, said by sets of roles and members, so that one statement can
 * count them. It says what `holdsIn` says: the owner and administrators always, then a member's own
 * override, then those of roles, of which one that allows wins, then `isGranted` and the roles that
 * grant it.
 */
export interface HolderRule {
  readonly owner_id: Snowflake
  readonly administrators: readonly Snowflake[]
  readonly allowed: { readonly roles: readonly Snowflake[]; readonly members: readonly Snowflake[] }
  readonly denied: { readonly roles: readonly Snowflake[]; readonly members: readonly Snowflake[] }
  /** Everybody of whom no override says anything. */
  readonly isGranted: boolean
  /** The same of members with one of these roles. */
  readonly granting: readonly Snowflake[]
}

export function holderRule(server: AccessRules, overrides: readonly Override[], permission: Permission): HolderRule {
  const rolesWith = (name: Permission) =>
    [...server.roles].flatMap(([id, { permissions }]) => (id !== server.id && permissions.has(name) ? [id] : []))
  const saying = (side: "allow" | "deny") => {
    const targets = overrides.filter(one => includes(one[side], permission) && one.target_id !== server.id)
    const of = (type: Override["type"]) => targets.flatMap(one => (one.type === type ? [one.target_id] : []))
    return { roles: of("role").filter(role => server.roles.has(role)), members: of("member") }
  }
  const everyone = overrides.find(({ type, target_id }) => type === "role" && target_id === server.id)
  const isSaid = everyone !== undefined && (includes(everyone.allow, permission) || includes(everyone.deny, permission))
  return {
    owner_id: server.owner_id,
    administrators: rolesWith("administrator"),
    allowed: saying("allow"),
    denied: saying("deny"),
    isGranted: isSaid ? includes(everyone.allow, permission) : everyoneHolds(server, permission),
    granting: isSaid ? [] : rolesWith(permission),
  }
}

/** Whether every member holds it, so that nobody need be counted. */
export const isHeldByAll = (server: AccessRules, overrides: readonly Override[], permission: Permission): boolean =>
  everyoneHolds(server, "administrator") ||
  (everyoneHolds(server, permission) && !overrides.some(({ deny }) => includes(deny, permission)))
