import { z } from "zod"
import { omittable, Snowflake } from "../core/fields.ts"
import { defineRoute } from "../core/registry.ts"
import { PermissionNames } from "../accounts/bots.ts"

export const addBot = defineRoute({
  method: "PUT",
  path: "/servers/:server_id/bots/:bot_id",
  summary:
    "Add a bot to a server, with a role of its own, the lowest there. The bot must be the caller's own or public; it is a member like others then, and leaves as they do. Its role goes with it",
  tag: "Bots",
  auth: "person",
  isAudited: true,
  permission: ["server.manage"],
  params: z.object({ server_id: Snowflake, bot_id: Snowflake }),
  body: z
    .object({
      permissions: omittable(PermissionNames).describe(
        "What its role grants: none that the caller lacks. Default: what the bot asks for",
      ),
    })
    .meta({ id: "BotAddRequest" }),
  example: { permissions: ["messages.manage"] },
  reply: z
    .object({
      success: z.literal(true),
      server_id: Snowflake,
      role_id: Snowflake.nullable().describe("The bot's own role. Null: it was granted nothing"),
    })
    .meta({ id: "BotAddedResponse" }),
  fails: [
    "invalid_server_id",
    "invalid_id",
    "server_not_found",
    "access_denied",
    "permission_denied",
    "bot_not_found",
    "already_member",
    "bot_banned",
    "role_limit",
    "member_limit",
    "too_many_servers",
    "bot_share_limit",
  ],
})

export const routes = { addBot }
