import { z } from "zod"
import { omittable, Snowflake, Success, userKeys, nameText } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineEvent, defineRoute } from "../core/registry.ts"
import { Member } from "./servers.ts"

export const Role = z
  .object({
    id: Snowflake,
    server_id: Snowflake,
    name: z.string(),
    color: z.string().describe("`#RRGGBB`"),
    position: z.int().nonnegative().describe("A higher role has more authority. 0: `@everyone`"),
    permissions: z.record(z.string(), z.boolean()).describe("All permissions. False: this role does not grant it"),
    hoist: z.boolean(),
    mentionable: z.boolean(),
    is_default: z.boolean().describe("Whether this is `@everyone`"),
    bot_id: Snowflake.optional().describe(
      "Present on the role that a bot was given as it was added: nobody else can have it, and it is deleted when the bot leaves",
    ),
  })
  .meta({ id: "RoleResponse" })
export type Role = z.infer<typeof Role>

const roleFields = {
  name: omittable(nameText(limits.roleName.min, limits.roleName.max)),
  color: z
    .string()
    .regex(/^#[0-9A-Fa-f]{6}$/, "must be #RRGGBB")
    .nullish(),
  permissions: omittable(userKeys(z.boolean().nullable(), { key: z.string().max(64) })).describe(
    "Replaces the granted permissions. Unknown names, and those with null, are ignored",
  ),
  hoist: omittable(z.boolean()),
  mentionable: omittable(z.boolean()),
}
export const RoleInput = z.object(roleFields).meta({ id: "RoleCreateRequest" })
export type RoleInput = z.output<typeof RoleInput>
export const RolePatch = z
  .object({ ...roleFields, position: omittable(z.int().min(0).max(limits.rolesPerServer)) })
  .meta({ id: "RoleUpdateRequest" })
export type RolePatch = z.output<typeof RolePatch>

const byServer = z.object({ server_id: Snowflake })
const byRole = z.object({ server_id: Snowflake, role_id: Snowflake })
const byMemberAndRole = z.object({ server_id: Snowflake, member_id: Snowflake, role_id: Snowflake })

export const listRoles = defineRoute({
  method: "GET",
  path: "/servers/:server_id/roles",
  summary: "List the roles of a server, highest first",
  tag: "Servers",
  auth: "user",
  permission: "member",
  params: byServer,
  reply: z.array(Role),
  fails: ["invalid_server_id", "server_not_found", "access_denied"],
})

export const createRole = defineRoute({
  method: "POST",
  path: "/servers/:server_id/roles",
  summary:
    "Create a role. The owner's new role is the highest; that of any other member is below their own highest role",
  tag: "Servers",
  auth: "user",
  isAudited: true,
  permission: ["roles.manage"],
  params: byServer,
  body: RoleInput,
  example: { name: "Moderators", color: "#5865F2", permissions: { "messages.manage": true }, hoist: true },
  reply: Role,
  fails: ["invalid_server_id", "server_not_found", "access_denied", "permission_denied", "rank_too_low", "role_limit"],
})

export const editRole = defineRoute({
  method: "PATCH",
  path: "/servers/:server_id/roles/:role_id",
  summary: "Change a role. Changed permissions take effect at once",
  tag: "Servers",
  auth: "user",
  isAudited: true,
  permission: ["roles.manage"],
  params: byRole,
  body: RolePatch,
  example: { name: "Helpers", permissions: { "messages.manage": false } },
  reply: Role,
  fails: [
    "invalid_server_id",
    "invalid_id",
    "server_not_found",
    "access_denied",
    "permission_denied",
    "role_not_found",
    "rank_too_low",
    "default_role",
  ],
})

export const deleteRole = defineRoute({
  method: "DELETE",
  path: "/servers/:server_id/roles/:role_id",
  summary: "Delete a role. Its members lose it",
  tag: "Servers",
  auth: "user",
  isAudited: true,
  permission: ["roles.manage"],
  params: byRole,
  reply: Success,
  fails: [
    "invalid_server_id",
    "invalid_id",
    "server_not_found",
    "access_denied",
    "permission_denied",
    "role_not_found",
    "rank_too_low",
    "default_role",
  ],
})

export const giveRole = defineRoute({
  method: "PUT",
  path: "/servers/:server_id/members/:member_id/roles/:role_id",
  summary: "Assign a role to a member",
  tag: "Servers",
  auth: "user",
  isAudited: true,
  permission: ["members.manage_roles", "roles.manage"],
  params: byMemberAndRole,
  reply: Success,
  fails: [
    "invalid_server_id",
    "invalid_id",
    "server_not_found",
    "access_denied",
    "permission_denied",
    "member_or_role_not_found",
    "rank_too_low",
    "bot_role",
  ],
})

export const takeRole = defineRoute({
  method: "DELETE",
  path: "/servers/:server_id/members/:member_id/roles/:role_id",
  summary: "Remove a role from a member",
  tag: "Servers",
  auth: "user",
  isAudited: true,
  permission: ["members.manage_roles", "roles.manage"],
  params: byMemberAndRole,
  reply: Success,
  fails: [
    "invalid_server_id",
    "invalid_id",
    "server_not_found",
    "access_denied",
    "permission_denied",
    "member_or_role_not_found",
    "rank_too_low",
    "default_role",
  ],
})

export const routes = { listRoles, createRole, editRole, deleteRole, giveRole, takeRole }

const ofServer = { guild_id: Snowflake, server_id: Snowflake }

export const guildRoleCreate = defineEvent({
  name: "GUILD_ROLE_CREATE",
  intent: "GUILDS",
  delivery: "stored",
  summary: "A role was created. Sent to every member",
  data: z.object({ ...ofServer, role: Role }),
})

export const guildRoleUpdate = defineEvent({
  name: "GUILD_ROLE_UPDATE",
  intent: "GUILDS",
  delivery: "stored",
  summary: "A role was changed or moved. Sent to every member",
  data: z.object({ ...ofServer, role: Role }),
})

export const guildRoleDelete = defineEvent({
  name: "GUILD_ROLE_DELETE",
  intent: "GUILDS",
  delivery: "stored",
  summary: "A role was deleted. Sent to every member",
  data: z.object({ ...ofServer, role_id: Snowflake }),
})

export const guildMemberUpdate = defineEvent({
  name: "GUILD_MEMBER_UPDATE",
  intent: "GUILD_MEMBERS",
  delivery: "stored",
  summary:
    "A member's roles, nickname or time-out changed. Sent to every member. The fields of the account are included if they are available; USER_UPDATE tells of changes to them",
  data: Member.partial({ username: true, avatar_url: true, badges: true, bot: true }).extend({
    ...ofServer,
    user: z.object({ id: Snowflake, username: z.string().optional(), avatar_url: z.string().nullish() }),
    nick: z.string().optional().describe("The nickname, if there is one"),
  }),
})
