import type { OverrideResponse, RoleResponse, ServerPermissions, Snowflake } from "./contract.ts"

/** What a role, an override or a moment says of one permission. */
export interface PermissionStep {
  readonly by: "owner" | "administrator" | "role" | "role override" | "member override" | "time-out"
  /** Of the role or member that it is about; the owner's and a time-out's have that of the member. */
  readonly id: Snowflake
  readonly allows: boolean
}

export interface PermissionAnswer {
  readonly isHeld: boolean
  /** In the order in which they count: the last one decides. Empty: nothing grants it. */
  readonly steps: readonly PermissionStep[]
}

/** A server as far as permissions go. `@everyone` has the server's own id. */
export interface PermissionServer {
  readonly id: Snowflake
  readonly owner_id: Snowflake
  readonly roles: ReadonlyMap<Snowflake, Pick<RoleResponse, "permissions">>
}

export interface PermissionMember {
  readonly user_id: Snowflake
  /** With or without `@everyone`; roles that are gone count for nothing. */
  readonly roles: readonly Snowflake[]
  /** Unix seconds; null: never timed out. */
  readonly timeout_until: number | null
}

/** What a timed-out member may not do, whatever they are granted. */
const lostInTimeout: ReadonlySet<string> = new Set<keyof ServerPermissions>([
  "messages.send",
  "messages.add_reactions",
  "messages.attach_files",
  "messages.embed_links",
  "voice.speak",
  "voice.connect",
])

/**
 * What a member may do at a moment, and why: in the server or, with a channel's overrides, in that
 * channel. It is what `GET /servers/{server_id}/permissions` says to that member.
 */
export function permissionsIn(
  server: PermissionServer,
  member: PermissionMember,
  overrides: readonly OverrideResponse[] = [],
  nowMs: number = Date.now(),
): Record<string, PermissionAnswer> {
  const { user_id: id } = member
  const names = Object.keys(server.roles.get(server.id)?.permissions ?? {})
  const everywhere = (step: PermissionStep) =>
    Object.fromEntries(names.map(name => [name, { isHeld: true, steps: [step] }]))
  if (id === server.owner_id) return everywhere({ by: "owner", id, allows: true })

  const own = member.roles.filter(role => role !== server.id && server.roles.has(role))
  const roles = [server.id, ...own]
  const grants = (role: Snowflake, name: string) => server.roles.get(role)?.permissions[name] === true
  const administrator = roles.find(role => grants(role, "administrator"))
  if (administrator !== undefined) return everywhere({ by: "administrator", id: administrator, allows: true })

  const isTimedOut = member.timeout_until !== null && member.timeout_until * 1_000 > nowMs
  const answerOf = (name: string): PermissionAnswer => {
    const steps: PermissionStep[] = roles
      .filter(role => grants(role, name))
      .map(role => ({ by: "role", id: role, allows: true }))
    const said = overrides.flatMap(({ type, target_id, allow, deny }): PermissionStep[] => {
      if (!allow.includes(name) && !deny.includes(name)) return []
      return [{ by: `${type} override`, id: target_id, allows: allow.includes(name) }]
    })
    const ofRoles = said.filter(({ by, id: role }) => by === "role override" && own.includes(role))
    steps.push(
      ...said.filter(step => step.by === "role override" && step.id === server.id),
      // Of those one that allows wins.
      ...ofRoles.filter(({ allows }) => !allows),
      ...ofRoles.filter(({ allows }) => allows),
      ...said.filter(step => step.by === "member override" && step.id === id),
    )
    if (isTimedOut && lostInTimeout.has(name)) steps.push({ by: "time-out", id, allows: false })
    return { isHeld: steps.at(-1)?.allows ?? false, steps }
  }
  return Object.fromEntries(names.map(name => [name, answerOf(name)]))
}

/** The position of a member's highest role, which is their authority; the owner is above everything. */
export function rankIn(
  server: Pick<PermissionServer, "owner_id"> & {
    readonly roles: ReadonlyMap<Snowflake, Pick<RoleResponse, "position">>
  },
  { user_id, roles }: Pick<PermissionMember, "user_id" | "roles">,
): number {
  if (user_id === server.owner_id) return Infinity
  return roles.reduce((highest, role) => Math.max(highest, server.roles.get(role)?.position ?? 0), 0)
}
