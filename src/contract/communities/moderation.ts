import { z } from "zod"
import { omittable, queryInt, Seconds, Snowflake, Success, text } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineEvent, defineRoute } from "../core/registry.ts"

export const Ban = z
  .object({
    user_id: Snowflake,
    reason: z.string().describe("Empty if no reason was given"),
    banned_by: Snowflake,
    banned_at: Seconds,
  })
  .meta({ id: "BanResponse" })
export type Ban = z.infer<typeof Ban>

const byServer = z.object({ server_id: Snowflake })
const byBanned = z.object({ server_id: Snowflake, user_id: Snowflake })

export const kickMember = defineRoute({
  method: "DELETE",
  path: "/servers/:server_id/members/:member_id",
  summary: "Remove a member from a server. They may return with an invite",
  tag: "Servers",
  auth: "user",
  isAudited: true,
  permission: ["members.kick"],
  params: z.object({ server_id: Snowflake, member_id: Snowflake }),
  query: z.object({
    reason: omittable(text(0, limits.banReason)).describe("The reason, for the audit log. Wins over the header"),
  }),
  reply: Success,
  fails: [
    "invalid_server_id",
    "invalid_id",
    "server_not_found",
    "access_denied",
    "permission_denied",
    "member_not_found",
    "rank_too_low",
  ],
})

export const listBans = defineRoute({
  method: "GET",
  path: "/servers/:server_id/bans",
  summary: "List the bans of a server, by user id",
  tag: "Servers",
  auth: "user",
  permission: ["members.ban", "bans.view"],
  params: byServer,
  query: z.object({
    limit: omittable(queryInt(1, limits.bansPage)).describe(
      `1 to ${limits.bansPage}. The default is ${limits.bansPage}`,
    ),
    after: omittable(Snowflake).describe("Only bans of users with a higher id"),
  }),
  reply: z.array(Ban),
  fails: ["invalid_server_id", "server_not_found", "access_denied", "permission_denied"],
})

export const banUser = defineRoute({
  method: "PUT",
  path: "/servers/:server_id/bans/:user_id",
  summary: "Ban a user, whether or not they are a member. They are removed and cannot join again",
  tag: "Servers",
  auth: "user",
  isAudited: true,
  permission: ["members.ban"],
  params: byBanned,
  body: z
    .object({ reason: omittable(text(0, limits.banReason)), delete_message_days: omittable(z.int().min(0).max(7)) })
    .meta({ id: "BanRequest" }),
  bodyOptional: true,
  example: { reason: "Spam", delete_message_days: 1 },
  reply: Success,
  fails: [
    "invalid_server_id",
    "invalid_user_id",
    "server_not_found",
    "server_or_user_not_found",
    "access_denied",
    "permission_denied",
    "rank_too_low",
  ],
})

export const unbanUser = defineRoute({
  method: "DELETE",
  path: "/servers/:server_id/bans/:user_id",
  summary: "Remove a ban",
  tag: "Servers",
  auth: "user",
  isAudited: true,
  permission: ["members.ban"],
  params: byBanned,
  reply: Success,
  fails: [
    "invalid_server_id",
    "invalid_user_id",
    "server_not_found",
    "access_denied",
    "permission_denied",
    "ban_not_found",
  ],
})

export const routes = { kickMember, listBans, banUser, unbanUser }

const Banned = z.object({
  guild_id: Snowflake,
  server_id: Snowflake,
  user: z.object({ id: Snowflake, username: z.string() }),
})

export const guildBanAdd = defineEvent({
  name: "GUILD_BAN_ADD",
  intent: "GUILD_BANS",
  delivery: "stored",
  summary: "A user was banned. Sent to members who may ban",
  data: Banned,
})

export const guildBanRemove = defineEvent({
  name: "GUILD_BAN_REMOVE",
  intent: "GUILD_BANS",
  delivery: "stored",
  summary: "A ban was removed. Sent to members who may ban",
  data: Banned,
})
