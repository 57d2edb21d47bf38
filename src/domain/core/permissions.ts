import type { Snowflake } from "../../contract/core/fields.ts"
import {
  aliasNames,
  permissionNames,
  permissionOf,
  permissions,
  type Permission,
} from "../../contract/core/permissions.ts"
import type { Override } from "./overrides.ts"
import { includes, namesIn, type PermissionMask } from "./permission-masks.ts"

/** What a decision about permissions needs of a server. `@everyone` has the server's own id. */
export interface AccessRules {
  readonly id: Snowflake
  readonly owner_id: Snowflake
  readonly roles: ReadonlyMap<Snowflake, { readonly permissions: ReadonlySet<Permission> }>
}

/** Roles as rows tell of them. */
export const grantsOf = (
  roles: readonly { readonly id: Snowflake; readonly permissions: readonly Permission[] }[],
): Map<Snowflake, { permissions: ReadonlySet<Permission> }> =>
  new Map(roles.map(({ id, permissions }) => [id, { permissions: new Set(permissions) }]))

/**
 * A member as far as permissions go: assigned roles without `@everyone`. Roles that are gone count
 * for nothing.
 */
export interface Holder {
  readonly user_id: Snowflake
  readonly roles: readonly Snowflake[]
}

/** What `@everyone` may do in a new server. */
export const grantedAtCreation: ReadonlySet<Permission> = new Set(
  permissionNames.filter(name => permissions[name].granted),
)

/**
 * The owner and administrators hold everything; everybody else what `@everyone` and their roles
 * grant together.
 */
export function holds(server: AccessRules, member: Holder, permission: Permission): boolean {
  if (member.user_id === server.owner_id || grants(server, server.id, permission)) return true
  for (const role of member.roles) if (grants(server, role, permission)) return true
  return false
}

function grants(server: AccessRules, role: Snowflake, permission: Permission): boolean {
  const held = server.roles.get(role)?.permissions
  return held !== undefined && (held.has(permission) || held.has("administrator"))
}

/**
 * The same in one channel: what `@everyone`'s override says replaces what the server says, then the
 * roles' overrides together, of which one that allows wins, then the member's own. Nothing is
 * denied to the owner and to administrators.
 */
export function holdsIn(
  server: AccessRules,
  overrides: readonly Override[],
  member: Holder,
  permission: Permission,
): boolean {
  if (overrides.length === 0) return holds(server, member, permission)
  if (holds(server, member, "administrator")) return true
  let held = holds(server, member, permission)
  let ofRoles: boolean | undefined
  let own: boolean | undefined
  for (const override of overrides) {
    const says = includes(override.allow, permission) ? true : includes(override.deny, permission) ? false : undefined
    if (says === undefined) continue
    if (override.type === "member") {
      if (override.target_id === member.user_id) own = says
    } else if (override.target_id === server.id) held = says
    else if (member.roles.includes(override.target_id) && server.roles.has(override.target_id))
      ofRoles = ofRoles === true || says
  }
  return own ?? ofRoles ?? held
}

/** What a timed-out member may not do, whatever they are granted. */
export const lostInTimeout: ReadonlySet<Permission> = new Set([
  "messages.send",
  "messages.add_reactions",
  "messages.attach_files",
  "messages.embed_links",
  "voice.speak",
  "voice.connect",
])

export interface TimedHolder extends Holder {
  /** Unix seconds; null: never timed out. */
  readonly timeout_until: number | null
}

export const isTimedOut = ({ timeout_until }: Pick<TimedHolder, "timeout_until">, nowMs: number): boolean =>
  timeout_until !== null && timeout_until * 1000 > nowMs

/**
 * What a member may do in a channel at a moment: as `holdsIn`, but for what a time-out takes.
 * Administrators lose nothing.
 */
export const holdsNow = (
  server: AccessRules,
  overrides: readonly Override[],
  member: TimedHolder,
  permission: Permission,
  nowMs: number,
): boolean =>
  holdsIn(server, overrides, member, permission) &&
  (!lostInTimeout.has(permission) || !isTimedOut(member, nowMs) || holds(server, member, "administrator"))

/**
 * What a member may do at a moment, in the server or, with a channel's overrides, in that channel:
 * by every name that a permission has.
 */
export function permissionMap(
  server: AccessRules,
  overrides: readonly Override[],
  member: TimedHolder,
  nowMs: number,
): Record<string, boolean> {
  const map: Record<string, boolean> = {}
  for (const name of permissionNames) map[name] = holdsNow(server, overrides, member, name, nowMs)
  for (const alias of aliasNames) {
    const permission = permissionOf(alias)
    // `server.view` is not a permission: every member of the server has it.
    map[alias] = permission === undefined || map[permission]!
  }
  return map
}

/** Whether everybody in the server holds a permission, so that no role needs a look. */
export const everyoneHolds = (server: AccessRules, permission: Permission): boolean =>
  server.roles.get(server.id)?.permissions.has(permission) ?? false

export interface Ranks extends AccessRules {
  readonly roles: ReadonlyMap<Snowflake, { readonly position: number; readonly permissions: ReadonlySet<Permission> }>
}

/** The position of a member's highest role; the owner is above everything. */
export function rankOf(server: Ranks, member: Holder): number {
  if (member.user_id === server.owner_id) return Infinity
  return member.roles.reduce((highest, role) => Math.max(highest, server.roles.get(role)?.position ?? 0), 0)
}

/** A permission that an actor would grant without having it themselves; undefined: none. */
export const notHisToGrant = (
  server: AccessRules,
  actor: Holder,
  granted: Iterable<Permission>,
  before?: ReadonlySet<Permission>,
): Permission | undefined => {
  for (const permission of granted) if (!before?.has(permission) && !holds(server, actor, permission)) return permission
  return undefined
}

/** What is said of the others. */
export const without = (overrides: readonly Override[], target: Snowflake): readonly Override[] =>
  overrides.filter(({ target_id }) => target_id !== target)

/** What a change of an override lets its target do that it forbade or did not allow before. */
export function loosened(before: Override | undefined, after: Override | undefined): Permission[] {
  const allowed = onlyIn(after?.allow, before?.allow)
  const freed = onlyIn(before?.deny, after?.deny)
  return [...new Set([...allowed, ...freed])]
}

const onlyIn = (one: PermissionMask = 0, other: PermissionMask = 0): Permission[] =>
  namesIn(one).filter(permission => !includes(other, permission))

/**
 * What the roles of a server are numbered after one of them was put above so many others;
 * `@everyone` stays at 0.
 */
export function renumbered(
  roles: Iterable<{ readonly id: Snowflake; readonly position: number }>,
  everyone: Snowflake,
  moved: Snowflake,
  isBelow: (position: number) => boolean,
): Map<Snowflake, number> {
  const others = [...roles]
    .filter(({ id }) => id !== moved && id !== everyone)
    .toSorted((a, b) => a.position - b.position || (a.id < b.id ? -1 : 1))
  const below = others.filter(({ position }) => isBelow(position)).length
  const order = [...others.slice(0, below).map(({ id }) => id), moved, ...others.slice(below).map(({ id }) => id)]
  return new Map(order.map((id, i) => [id, i + 1]))
}
