import type { Snowflake } from "../contract/fields.ts"
import { permissionNames, permissions, type Permission } from "../contract/permissions.ts"

/** What a decision about permissions needs of a server. `@everyone` has the server's own id. */
export interface AccessRules {
  readonly id: Snowflake
  readonly owner_id: Snowflake
  readonly roles: ReadonlyMap<Snowflake, { readonly permissions: ReadonlySet<Permission> }>
}

/** A member as far as permissions go: assigned roles without `@everyone`. */
export interface Holder {
  readonly user_id: Snowflake
  readonly roles: readonly Snowflake[]
}

/** What `@everyone` may do in a new server. */
export const grantedAtCreation: ReadonlySet<Permission> = new Set(
  permissionNames.filter(name => permissions[name].granted),
)

/** The owner and administrators hold everything; everybody else what `@everyone` and his roles grant together. */
export function holds(server: AccessRules, member: Holder, permission: Permission): boolean {
  if (member.user_id === server.owner_id) return true
  const grants = (role: Snowflake) => {
    const held = server.roles.get(role)?.permissions
    return held !== undefined && (held.has(permission) || held.has("administrator"))
  }
  return grants(server.id) || member.roles.some(grants)
}

/** Whether everybody in the server holds a permission, so that no role needs a look. */
export const everyoneHolds = (server: AccessRules, permission: Permission): boolean =>
  server.roles.get(server.id)?.permissions.has(permission) ?? false
