import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { permissionNames, permissionOf, type Permission } from "../../contract/core/permissions.ts"
import {
  guildRoleCreate,
  guildRoleDelete,
  guildRoleUpdate,
  type Role,
  type RoleInput,
  type RolePatch,
} from "../../contract/communities/roles.ts"
import { changesOf, type Changes } from "../../domain/communities/audit.ts"
import { membersOf } from "../../domain/core/audience.ts"
import type { Override } from "../../domain/core/overrides.ts"
import { holds, notHisToGrant, rankOf, renumbered, without } from "../../domain/core/permissions.ts"
import { roleObject, type MemberState, type RoleState, type ServerState } from "../../domain/communities/servers.ts"
import type { Actor } from "../../domain/accounts/accounts.ts"
import { updateMember } from "../../storage/communities/guild-members.ts"
import { deleteRole, insertRole, setMemberRoles, updateRole } from "../../storage/communities/servers.ts"
import { requireMember, requirePermission, requireRank } from "../shared/access.ts"
import { audit, memberTarget, type AuditContext, type AuditedTurn } from "../shared/audit.ts"
import { combine, type HomeEffects } from "../shared/effects.ts"
import { withoutTargets } from "./automod.ts"
import { memberTold } from "./members.ts"
import { grantsOtherViews } from "../../domain/communities/view-changes.ts"
import { takeViewChange, type PacedContext } from "./view-changes.ts"
import { member, memberFacts } from "../shared/member-facts.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { control, type ActorKind, type Publication } from "../../runtime/actor.ts"
import { voiceRechecks } from "../voice/voice.ts"

/**
 * The roles of a server, among its home's commands. They keep:
 *   ROLE1  A member cannot grant permissions that they lack, or change a role at or above their
 *       highest. Lower roles can be assigned and removed regardless of their permissions.
 *   ROLE2  A change of a role's permissions is in every log before the events that follow it.
 *   ROLE3  A bot's own role is given to nobody else, and goes in the turn in which the bot goes.
 */
export interface RoleCommands {
  listRoles(input: { user: Snowflake }): Role[]
  createRole(input: PacedContext & { role: RoleInput }): Role
  editRole(input: PacedContext & { role_id: Snowflake; patch: RolePatch }): Role
  deleteRole(input: PacedContext & { role_id: Snowflake }): { deleted: true }
  /** `shown`: the member as others see them, here and in the next. */
  giveRole(input: AuditContext & { member_id: Snowflake; role_id: Snowflake; shown: Actor }): { given: true }
  takeRole(input: AuditContext & { member_id: Snowflake; role_id: Snowflake; shown: Actor }): { taken: true }
  /**
   * Roles that the operator's configuration ties to groups of an issuer. Nobody in the server has to
   * allow it, so no route leads here. What is not there, or was done before, is left out.
   */
  mapRoles(input: { shown: Actor; give: readonly Snowflake[]; take: readonly Snowflake[]; reason: string }): {
    changed: number
  }
}

type Server = Readonlied<ServerState>
type StoredRole = Readonlied<RoleState>

export const roleCommands: ActorKind<ServerState, ServerState, RoleCommands>["commands"] = {
  listRoles: {
    needs: ({ user }) => [member(user)],
    turn({ state: server }, { user }) {
      requireMember(server, user)
      const roles = [...server.roles.values()].toSorted((a, b) => b.position - a.position || (a.id < b.id ? -1 : 1))
      return { reply: roles.map(role => roleObject(server, role)) }
    },
  },

  createRole: {
    needs: ({ user }) => [member(user)],
    turn(context, { user, reason, isLimited, role: input }) {
      const { state: server, newId, now } = context
      const caller = requireMember(server, user)
      requirePermission(server, caller, "roles.manage")
      const granted = grantedBy(input.permissions)
      requireGrantable(server, caller, granted)
      const rank = rankOf(server, caller)
      if (rank === 0) throw fail("rank_too_low") // there is no place below
      const created: RoleState = {
        id: newId(),
        name: input.name ?? "New Role",
        color: input.color ?? "#000000",
        position: 0,
        hoist: input.hoist ?? false,
        mentionable: input.mentionable ?? false,
        permissions: granted,
      }
      const made = roleCreation(server, created, position => position < rank, { ...context, user, reason })
      const { placed, moved } = made
      // Nobody has it yet, so nobody views another channel.
      const take = takeViewChange(server, { user, isLimited }, now, { changesViews: false, events: moved.length })
      return { ...combine({ apply: draft => take?.(draft) }, made), reply: roleObject(server, placed) }
    },
  },

  editRole: {
    needs: ({ user }) => [member(user)],
    turn(context, { user, reason, isLimited, role_id, patch }) {
      const { state: server, now } = context
      const caller = requireMember(server, user)
      requirePermission(server, caller, "roles.manage")
      const found = server.roles.get(role_id)
      if (!found) throw fail("role_not_found")
      requireRank(server, caller, found.position)
      const isDefault = role_id === server.id
      if (isDefault && (patch.name !== undefined || (patch.position ?? 0) !== 0)) throw fail("default_role")
      const granted = patch.permissions === undefined ? found.permissions : grantedBy(patch.permissions)
      requireGrantable(server, caller, granted, found.permissions)
      if (patch.position !== undefined && !isDefault) requireRank(server, caller, patch.position)
      const edited: RoleState = {
        ...found,
        name: patch.name ?? found.name,
        color: patch.color ?? found.color,
        hoist: patch.hoist ?? found.hoist,
        mentionable: patch.mentionable ?? found.mentionable,
        permissions: granted,
      }
      const positions =
        patch.position === undefined || isDefault
          ? new Map<Snowflake, number>()
          : renumbered(server.roles.values(), server.id, role_id, stoodAbove(found.position, patch.position))
      const placed = { ...edited, position: positions.get(role_id) ?? edited.position }
      const moved = movedRoles(server, positions).filter(({ id }) => id !== role_id)
      const changes = roleChanges(found, placed)
      if (Object.keys(changes).length === 0 && moved.length === 0) return { reply: roleObject(server, found) }
      const changesViews = grantsOtherViews(
        name => found.permissions.has(name),
        name => granted.has(name),
      )
      const take = takeViewChange(server, { user, isLimited }, now, { changesViews, events: moved.length })
      audit({ ...context, user, reason }, "ROLE_UPDATE", { type: "role", id: role_id, name: placed.name }, changes)
      return {
        apply: draft => {
          for (const role of [placed, ...moved]) draft.roles.set(role.id, role)
          take?.(draft)
        },
        write: [placed, ...moved].map(role => updateRole(role)),
        publish: [
          // Workers look who is concerned; a new name concerns nobody's rights.
          ...("permissions" in changes ? [changed(server, role_id, found.permissions, granted)] : []), // ROLE2
          ...[placed, ...moved].map(role => updated(server, role)),
          ...voiceRechecks(server),
        ],
        reply: roleObject(server, placed),
      }
    },
  },

  deleteRole: {
    needs: ({ user }) => [member(user)],
    turn(context, { user, reason, isLimited, role_id }) {
      const { state: server, now } = context
      const caller = requireMember(server, user)
      requirePermission(server, caller, "roles.manage")
      const found = server.roles.get(role_id)
      if (!found) throw fail("role_not_found")
      if (role_id === server.id) throw fail("default_role")
      requireRank(server, caller, found.position)
      const take = takeViewChange(server, { user, isLimited }, now, { changesViews: true, events: 0 })
      const gone = roleDeletion(server, [found], { ...context, user, reason })
      const rechecks = { publish: voiceRechecks(server) }
      return { ...combine({ apply: draft => take?.(draft) }, gone, rechecks), reply: { deleted: true } }
    },
  },

  giveRole: {
    needs: ({ user, member_id }) => [member(user), member(member_id)],
    turn(context, { user, reason, member_id, role_id, shown }) {
      const { state: server } = context
      const { target, role } = requireAssignable(server, user, member_id, role_id)
      if (role.id === server.id || target.roles.includes(role.id)) return { reply: { given: true } }
      if (!mayHave(role, member_id)) throw fail("bot_role") // ROLE3
      audit({ ...context, user, reason }, "MEMBER_ROLE_ADD", memberTarget(member_id), {
        role_id: { old: null, new: role.id },
      })
      return { ...assignment(server, target, [...target.roles, role.id], shown), reply: { given: true } }
    },
  },

  takeRole: {
    needs: ({ user, member_id }) => [member(user), member(member_id)],
    turn(context, { user, reason, member_id, role_id, shown }) {
      const { state: server } = context
      const { target, role } = requireAssignable(server, user, member_id, role_id)
      if (role.id === server.id) throw fail("default_role")
      if (!target.roles.includes(role.id)) return { reply: { taken: true } }
      const left = target.roles.filter(id => id !== role.id)
      audit({ ...context, user, reason }, "MEMBER_ROLE_REMOVE", memberTarget(member_id), {
        role_id: { old: role.id, new: null },
      })
      return { ...assignment(server, target, left, shown), reply: { taken: true } }
    },
  },

  mapRoles: {
    needs: ({ shown }) => [member(shown.id)],
    turn(context, { shown, give, take, reason }) {
      const { state: server } = context
      const target = memberFacts.of(server).get(shown.id)
      if (!target) return { reply: { changed: 0 } }
      const isOther = (id: Snowflake) => id !== server.id && server.roles.has(id)
      const given = give.filter(
        id => isOther(id) && mayHave(server.roles.get(id)!, shown.id) && !target.roles.includes(id), // ROLE3
      )
      const taken = take.filter(id => isOther(id) && target.roles.includes(id))
      if (given.length + taken.length === 0) return { reply: { changed: 0 } }
      const noted = { ...context, user: shown.id, reason }
      for (const id of given)
        audit(noted, "MEMBER_ROLE_ADD", memberTarget(shown.id), { role_id: { old: null, new: id } })
      for (const id of taken)
        audit(noted, "MEMBER_ROLE_REMOVE", memberTarget(shown.id), { role_id: { old: id, new: null } })
      const roles = [...target.roles.filter(id => !taken.includes(id)), ...given]
      return { ...assignment(server, target, roles, shown), reply: { changed: given.length + taken.length } }
    },
  },
}

/** What a client's map of names grants; names that mean nothing here are left out. */
function grantedBy(input: Readonly<Record<string, boolean | null>> | undefined): ReadonlySet<Permission> {
  const named = new Set(Object.entries(input ?? {}).flatMap(([name, held]) => (held ? [permissionOf(name)] : [])))
  return new Set(permissionNames.filter(name => named.has(name)))
}

/** The effects of a new role, above those others of which `isBelow` holds. */
export function roleCreation(
  server: Server,
  created: RoleState,
  isBelow: (position: number) => boolean,
  by: AuditedTurn & AuditContext,
) {
  if (server.roles.size >= limits.rolesPerServer) throw fail("role_limit")
  const positions = renumbered([...server.roles.values(), created], server.id, created.id, isBelow)
  const placed = { ...created, position: positions.get(created.id)! }
  const moved = movedRoles(server, positions)
  audit(by, "ROLE_CREATE", { type: "role", id: placed.id, name: placed.name }, roleChanges(null, placed))
  return {
    placed,
    moved,
    apply: (draft: ServerState) => {
      draft.roles.set(placed.id, placed)
      for (const role of moved) draft.roles.set(role.id, role)
    },
    write: [insertRole({ ...placed, server_id: server.id }), ...moved.map(role => updateRole(role))],
    publish: [
      changed(server, placed.id, null, placed.permissions),
      guildRoleCreate.to(membersOf(server.id), inServer(server, { role: roleObject(server, placed) })),
      ...moved.map(role => updated(server, role)),
    ],
  }
}

/** The effects of the end of roles: with them goes what channels and rules say of them. */
export function roleDeletion(
  server: Server,
  roles: readonly StoredRole[],
  by: AuditedTurn & AuditContext,
): HomeEffects {
  const ids = new Set(roles.map(({ id }) => id))
  const saidOf = (role_id: Snowflake) =>
    [...server.overrides].flatMap(([channel, overrides]) =>
      overrides.filter(({ target_id }) => target_id === role_id).map(override => [channel, override] as const),
    )
  const gone = roles.map(role => ({ role, said: saidOf(role.id) }))
  const moderated = withoutTargets(server, ids, by, by)
  for (const role of roles)
    audit(by, "ROLE_DELETE", { type: "role", id: role.id, name: role.name }, roleChanges(role, null))
  return {
    apply: draft => {
      for (const id of ids) draft.roles.delete(id)
      moderated.apply(draft)
      for (const { role, said } of gone)
        for (const [channel] of said) draft.overrides.set(channel, without(draft.overrides.get(channel)!, role.id))
    },
    write: [...roles.map(({ id }) => deleteRole({ id })), ...moderated.write],
    publish: gone.flatMap(({ role, said }) => [
      changed(server, role.id, role.permissions, null, said), // ROLE2
      guildRoleDelete.to(membersOf(server.id), inServer(server, { role_id: role.id })),
    ]),
  }
}

/** ROLE3: what goes with a bot that leaves. One at most, but for what a worker of the version before left. */
export function ownRolesDeletion(
  server: Server,
  bot: Snowflake,
  by: AuditedTurn & AuditContext,
): HomeEffects | undefined {
  const own = [...server.roles.values()].filter(({ bot_id }) => bot_id === bot)
  return own.length === 0 ? undefined : roleDeletion(server, own, by)
}

/** ROLE3 */
const mayHave = ({ bot_id = null }: StoredRole, member: Snowflake): boolean => bot_id === null || bot_id === member

/** ROLE1 */
export function requireGrantable(
  server: Server,
  caller: Readonlied<MemberState>,
  granted: ReadonlySet<Permission>,
  before?: ReadonlySet<Permission>,
): void {
  const permission = notHisToGrant(server, caller, granted, before)
  if (permission !== undefined) throw fail("permission_denied", { permission })
}

/** ROLE1: the member and the role, if the caller may bring them together or apart. */
function requireAssignable(server: Server, user: Snowflake, member_id: Snowflake, role_id: Snowflake) {
  const caller = requireMember(server, user)
  if (!holds(server, caller, "members.manage_roles")) requirePermission(server, caller, "roles.manage")
  const target = memberFacts.of(server).get(member_id)
  const role = server.roles.get(role_id)
  if (!target || !role) throw fail("member_or_role_not_found")
  requireRank(server, caller, role.position)
  return { target, role }
}

/** A role makes a membership last. */
function assignment(server: Server, target: Readonlied<MemberState>, roles: readonly Snowflake[], shown: Actor) {
  const kept = roles.filter(id => server.roles.has(id))
  const changed: MemberState = { ...target, roles: kept, temporary: target.temporary && kept.length === 0 }
  return {
    apply: (draft: ServerState) => {
      memberFacts.of(draft).set(target.user_id, changed)
    },
    write: [
      setMemberRoles({ server_id: server.id, user_id: target.user_id, roles: kept }),
      ...(changed.temporary === target.temporary ? [] : [updateMember({ ...changed, server_id: server.id })]),
    ],
    publish: [
      control(membersOf(server.id), {
        type: "memberRoles",
        server: server.id,
        user: target.user_id,
        before: target.roles,
        after: kept,
      }), // ROLE2
      memberTold(server, changed, shown),
      ...voiceRechecks(server, ({ user_id }) => user_id === target.user_id),
    ],
  }
}

/** As the audit log shows them. */
function roleChanges(before: StoredRole | null, after: StoredRole | null): Changes {
  const shown = (role: StoredRole | null) => role && { ...role, permissions: [...role.permissions].toSorted() }
  return changesOf(shown(before), shown(after), ["name", "color", "position", "hoist", "mentionable", "permissions"])
}

/** Which of the others a role stands above that moves from one position to another. */
const stoodAbove = (from: number, to: number) => (position: number) => (to > from ? position <= to : position < to)

const movedRoles = (server: Server, positions: ReadonlyMap<Snowflake, number>): StoredRole[] =>
  [...server.roles.values()].flatMap(role => {
    const position = positions.get(role.id)
    return position === undefined || position === role.position ? [] : [{ ...role, position }]
  })

const inServer = <T extends object>(server: Server, facts: T) => ({
  guild_id: server.id,
  server_id: server.id,
  ...facts,
})

const updated = (server: Server, role: StoredRole) =>
  guildRoleUpdate.to(membersOf(server.id), inServer(server, { role: roleObject(server, role) }))

const changed = (
  server: Server,
  role: Snowflake,
  before: ReadonlySet<Permission> | null,
  after: ReadonlySet<Permission> | null,
  overrides?: readonly (readonly [Snowflake, Override])[],
): Publication =>
  control(membersOf(server.id), {
    type: "role",
    server: server.id,
    role,
    before: before && [...before],
    after: after && [...after],
    ...(overrides && { overrides }),
  })
