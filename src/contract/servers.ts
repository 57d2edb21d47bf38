import { z } from "zod"
import { omittable, Seconds, Snowflake, Success, text } from "./fields.ts"
import { limits } from "./limits.ts"
import { defineEvent, defineRoute } from "./registry.ts"

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
  summary: "The caller's servers, by name",
  tag: "Servers",
  auth: "user",
  reply: z.array(Server),
  fails: [],
})

export const createServer = defineRoute({
  method: "POST",
  path: "/servers",
  summary: "Create a server with the role @everyone and a text channel; the caller owns it",
  tag: "Servers",
  auth: "user",
  body: z
    .object({
      name: text(limits.serverName.min, limits.serverName.max),
      description: omittable(text(0, limits.serverDescription)),
    })
    .meta({ id: "ServerCreateRequest" }),
  reply: Server,
  fails: ["server_limit"],
})

export const getServer = defineRoute({
  method: "GET",
  path: "/servers/:server_id",
  summary: "One server, for its members",
  tag: "Servers",
  auth: "user",
  permission: "member",
  params: byServer,
  reply: Server,
  fails: ["invalid_server_id", "server_not_found", "access_denied"],
})

export const deleteServer = defineRoute({
  method: "DELETE",
  path: "/servers/:server_id",
  summary: "Delete a server with everything in it",
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
  summary: "Leave a server",
  tag: "Servers",
  auth: "user",
  permission: "member",
  params: byServer,
  reply: Success,
  fails: ["invalid_server_id", "server_not_found", "access_denied", "owner_cannot_leave"],
})

export const routes = { listServers, createServer, getServer, deleteServer, leaveServer }

/** A member as others see him. `member_id` equals `user_id`; `roles` includes `@everyone`'s id, which is the server's. */
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
    timeout_until: Seconds.nullable(),
    timeout_reason: z.string().nullable(),
  })
  .meta({ id: "MemberResponse" })
export type Member = z.infer<typeof Member>

/** A server as its new member's sessions get it: only channels that he may see. */
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
  summary: "The user came into a server, by creating or joining it",
  data: Guild,
})

export const guildDelete = defineEvent({
  name: "GUILD_DELETE",
  intent: "GUILDS",
  delivery: "stored",
  summary: "A server is gone for this user: deleted, left, or he was removed",
  data: z.object({ id: Snowflake, server_id: Snowflake, guild_id: Snowflake }),
})

export const guildMemberAdd = defineEvent({
  name: "GUILD_MEMBER_ADD",
  intent: "GUILD_MEMBERS",
  delivery: "stored",
  summary: "Somebody joined; everybody but the new member gets it",
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
  summary: "Somebody left or was removed; the remaining members get it",
  data: z.object({ guild_id: Snowflake, server_id: Snowflake, user: z.object({ id: Snowflake }) }),
})
