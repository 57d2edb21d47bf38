import { z } from "zod"
import { sample } from "../core/examples.ts"
import { omittable, Seconds, Snowflake, SnowflakeInput, Success, text, nameText } from "../core/fields.ts"
import { identityFailures, identityProof } from "../accounts/identity-proof.ts"
import { limits } from "../core/limits.ts"
import { aliasNames, permissionNames } from "../core/permissions.ts"
import { defineEvent, defineRoute } from "../core/registry.ts"

export const Server = z
  .object({
    id: Snowflake,
    name: z.string(),
    description: z.string().nullable(),
    icon_url: z.string().nullable(),
    owner_id: Snowflake,
    member_count: z.int(),
    default_channel_id: Snowflake.nullable(),
    verification_level: z.int(),
    default_message_notifications: z.int(),
    public: z.boolean(),
    category: z.string().nullable(),
    created_at: Seconds,
  })
  .meta({ id: "ServerResponse" })
export type Server = z.infer<typeof Server>

const byServer = z.object({ server_id: Snowflake })

export const listServers = defineRoute({
  method: "GET",
  path: "/servers",
  summary: "List the caller's servers, by name",
  tag: "Servers",
  auth: "user",
  reply: z.array(Server),
  fails: [],
})

export const createServer = defineRoute({
  method: "POST",
  path: "/servers",
  summary: "Create a server with the role @everyone and a text channel. The caller becomes its owner",
  tag: "Servers",
  auth: "user",
  openTo: "any signed-in user, up to the limit of their tier",
  body: z
    .object({
      name: nameText(limits.serverName.min, limits.serverName.max),
      description: omittable(text(0, limits.serverDescription)),
    })
    .meta({ id: "ServerCreateRequest" }),
  example: { name: "Analytical Engine", description: "Notes on computing" },
  reply: Server,
  fails: ["server_limit", "too_many_servers"],
})

export const getServer = defineRoute({
  method: "GET",
  path: "/servers/:server_id",
  summary: "Get a server. Members only",
  tag: "Servers",
  auth: "user",
  permission: "member",
  params: byServer,
  reply: Server,
  fails: ["invalid_server_id", "server_not_found", "access_denied"],
})

export const ServerPatch = z
  .object({
    name: omittable(nameText(limits.serverName.min, limits.serverName.max)),
    description: omittable(text(0, limits.serverDescription)).describe("Empty string: none"),
    default_channel_id: omittable(SnowflakeInput).describe(
      'A text channel of this server that the caller may view. `"0"`: none',
    ),
    public: omittable(z.boolean()).describe("Whether everybody may join without an invite"),
    category: omittable(text(0, limits.serverCategory)).describe("A description of the topic. Empty string: none"),
    default_message_notifications: omittable(z.union([z.literal(0), z.literal(1)])).describe(
      "The default notification level of members. 0: all messages, 1: mentions",
    ),
  })
  .meta({ id: "ServerUpdateRequest" })
export type ServerPatch = z.infer<typeof ServerPatch>

export const editServer = defineRoute({
  method: "PATCH",
  path: "/servers/:server_id",
  summary: "Change a server's settings. Omitted fields stay unchanged",
  tag: "Servers",
  auth: "user",
  isAudited: true,
  permission: ["server.manage"],
  params: byServer,
  body: ServerPatch,
  example: { description: "Notes on computing", public: true },
  reply: Server,
  fails: ["invalid_server_id", "server_not_found", "access_denied", "permission_denied", "invalid_default_channel"],
})

export const getServerPermissions = defineRoute({
  method: "GET",
  path: "/servers/:server_id/permissions",
  summary: "Get the caller's permissions in a server or in one of its channels",
  tag: "Servers",
  auth: "user",
  permission: "member",
  params: byServer,
  query: z.object({
    channel_id: omittable(Snowflake).describe("A channel of this server: with its permission overrides"),
  }),
  reply: z
    .object(Object.fromEntries([...permissionNames, ...aliasNames].map(name => [name, z.boolean()])))
    .meta({ id: "ServerPermissions", description: "Every permission by name and by alias" }),
  fails: ["invalid_server_id", "server_not_found", "channel_not_found", "access_denied"],
})

export const transferServer = defineRoute({
  method: "PUT",
  path: "/servers/:server_id/owner",
  summary: "Transfer a server to another member, who must not be a bot",
  tag: "Servers",
  auth: "person",
  isAudited: true,
  permission: "owner",
  params: byServer,
  body: z
    .object({
      user_id: SnowflakeInput.describe("The new owner"),
      ...identityProof,
    })
    .meta({ id: "ServerOwnerRequest" }),
  example: { user_id: sample.other, password: sample.password },
  reply: Server,
  fails: [
    "invalid_server_id",
    "server_not_found",
    "access_denied",
    "not_owner",
    "member_not_found",
    "invalid_new_owner",
    "server_limit",
    ...identityFailures,
  ],
})

export const joinServer = defineRoute({
  method: "POST",
  path: "/servers/:server_id/join",
  summary: "Join a public server",
  tag: "Servers",
  auth: "user",
  openTo: "any signed-in user who is not banned, if the server is public",
  params: byServer,
  reply: Success.extend({ server_id: Snowflake }),
  fails: [
    "invalid_server_id",
    "server_not_found",
    "access_denied",
    "already_member",
    "banned",
    "member_limit",
    "too_many_servers",
  ],
})

export const deleteServer = defineRoute({
  method: "DELETE",
  path: "/servers/:server_id",
  summary: "Delete a server and everything in it. It cannot be undone. Members receive GUILD_DELETE",
  tag: "Servers",
  auth: "user",
  permission: "owner",
  params: byServer,
  reply: Success,
  fails: ["invalid_server_id", "server_not_found", "access_denied", "not_owner"],
})

export const leaveServer = defineRoute({
  method: "POST",
  path: "/servers/:server_id/leave",
  summary: "Leave a server. After the response nothing that happens there reaches the caller",
  tag: "Servers",
  auth: "user",
  openTo: "any member but the owner",
  permission: "member",
  params: byServer,
  reply: Success,
  fails: ["invalid_server_id", "server_not_found", "access_denied", "owner_cannot_leave"],
})

export const routes = {
  listServers,
  createServer,
  getServer,
  editServer,
  getServerPermissions,
  transferServer,
  joinServer,
  deleteServer,
  leaveServer,
}

/**
 * A member as others see them. `member_id` equals `user_id`; `roles` includes `@everyone`'s id,
 * which is the server's.
 */
export const Member = z
  .object({
    user_id: Snowflake,
    member_id: Snowflake,
    username: z.string(),
    avatar_url: z.string().nullable(),
    nickname: z.string().nullable(),
    roles: z.array(Snowflake),
    joined_at: Seconds,
    badges: z.array(z.string()),
    bot: z.boolean(),
    timeout_until: Seconds.nullable(),
    timeout_reason: z.string().nullable(),
  })
  .meta({ id: "Member" })
export type Member = z.infer<typeof Member>

/** A server as the sessions of its new member receive it: only channels that the member may see. */
const Guild = z.object({
  id: Snowflake,
  server_id: Snowflake,
  guild_id: Snowflake,
  name: z.string(),
  owner_id: Snowflake,
  member_count: z.int(),
  icon: z.string().optional(),
  channels: z.array(
    z.object({ id: Snowflake, name: z.string(), type: z.string(), channel_type: z.string(), position: z.int() }),
  ),
  roles: z.array(
    z.object({ id: Snowflake, name: z.string(), color: z.string(), hoist: z.boolean(), position: z.int() }),
  ),
  members: z.array(z.never()),
})
export type Guild = z.infer<typeof Guild>

export const guildCreate = defineEvent({
  name: "GUILD_CREATE",
  intent: "GUILDS",
  delivery: "stored",
  summary: "The user created or joined a server",
  data: Guild,
})

const ServerUpdate = Server.extend({ server_id: Snowflake, guild_id: Snowflake, icon: z.string().optional() })
export type ServerUpdate = z.infer<typeof ServerUpdate>

export const guildUpdate = defineEvent({
  name: "GUILD_UPDATE",
  intent: "GUILDS",
  delivery: "stored",
  summary: "A server's settings, icon or owner changed. `member_count` is the current number",
  data: ServerUpdate,
})

export const guildDelete = defineEvent({
  name: "GUILD_DELETE",
  intent: "GUILDS",
  delivery: "stored",
  summary: "The server was deleted, or the user left it or was removed",
  data: z.object({ id: Snowflake, server_id: Snowflake, guild_id: Snowflake }),
})

export const guildMemberAdd = defineEvent({
  name: "GUILD_MEMBER_ADD",
  intent: "GUILD_MEMBERS",
  delivery: "stored",
  summary: "A user joined. Sent to all members except the new one",
  data: Member.extend({
    guild_id: Snowflake,
    server_id: Snowflake,
    user: z.object({ id: Snowflake, username: z.string(), avatar_url: z.string().nullable() }),
  }),
})

export const guildMemberRemove = defineEvent({
  name: "GUILD_MEMBER_REMOVE",
  intent: "GUILD_MEMBERS",
  delivery: "stored",
  summary: "A user left or was removed. Sent to the remaining members",
  data: z.object({ guild_id: Snowflake, server_id: Snowflake, user: z.object({ id: Snowflake }) }),
})
