import { z } from "zod"
import { omittable, Seconds, Snowflake } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineRoute } from "../core/registry.ts"
import { PublicUser } from "../accounts/users.ts"

/**
 * The actions of communities. Resources of other subjects declare theirs beside them; contract.ts
 * composes them. The log is deleted with its server.
 */
const communityActions = [
  "SERVER_CREATE",
  "SERVER_UPDATE",
  "CHANNEL_CREATE",
  "CHANNEL_UPDATE",
  "CHANNEL_DELETE",
  "ROLE_CREATE",
  "ROLE_UPDATE",
  "ROLE_DELETE",
  "MEMBER_JOIN",
  "MEMBER_LEAVE",
  "MEMBER_KICK",
  "MEMBER_BAN",
  "MEMBER_UNBAN",
  "MEMBER_UPDATE",
  "BOT_ADD",
  "MEMBER_ROLE_ADD",
  "MEMBER_ROLE_REMOVE",
  "INVITE_CREATE",
  "INVITE_USE",
  "INVITE_DELETE",
  "OVERRIDE_CREATE",
  "OVERRIDE_UPDATE",
  "OVERRIDE_DELETE",
  "EMOJI_CREATE",
  "EMOJI_UPDATE",
  "EMOJI_DELETE",
  "STICKER_CREATE",
  "STICKER_DELETE",
  "AUTOMOD_RULE_CREATE",
  "AUTOMOD_RULE_UPDATE",
  "AUTOMOD_RULE_DELETE",
] as const

export const auditTargets = [
  "server",
  "member",
  "role",
  "channel",
  "category",
  "invite",
  "override",
  "webhook",
  "emoji",
  "sticker",
  "message",
  "automod_rule",
] as const
export type AuditTarget = (typeof auditTargets)[number]

/**
 * The audit log with the actions of every subject; `contributed`: those of subjects other than
 * communities.
 */
export function auditLogOf<const Action extends string>(contributed: readonly Action[]) {
  const actions = [...communityActions, ...contributed] as const
  const AuditEntry = z
    .object({
      id: Snowflake,
      server_id: Snowflake,
      user_id: Snowflake.describe("The user who made the change"),
      user: PublicUser.nullable(),
      action: z.enum(actions),
      target_type: z.enum(auditTargets),
      target_id: z.string().nullable().describe("An id, or an invite's code"),
      target_name: z
        .string()
        .nullable()
        .describe(
          "Null for a channel, and its overrides and webhooks, that the caller may not view. Deleted ones are shown only to administrators",
        ),
      changes: z
        .record(z.string(), z.object({ old: z.unknown(), new: z.unknown() }))
        .describe(
          "For each changed field the old and the new value. `{}` if no values are recorded, and for what the caller may not view",
        ),
      reason: z.string().describe("Empty if no reason was given"),
      created_at: Seconds,
    })
    .meta({ id: "AuditLogEntryResponse" })

  const listAuditLog = defineRoute({
    method: "GET",
    path: "/servers/:server_id/audit-logs",
    summary: "The audit log of a server, newest first",
    tag: "Servers",
    auth: "user",
    permission: ["server.view_audit_log"],
    params: z.object({ server_id: Snowflake }),
    query: z.object({
      limit: z
        .string()
        .regex(/^[1-9]\d{0,9}$/, "must be a positive integer")
        .transform(value => Math.min(Number(value), limits.pageSize))
        .default(limits.defaultPageSize)
        .describe("1 to 100. A larger value counts as 100"),
      before: omittable(Snowflake).describe("Only entries before this entry"),
      user_id: omittable(Snowflake).describe("Only entries of this user"),
      action: omittable(z.enum(actions)).describe("Only entries with this action"),
    }),
    reply: z.array(AuditEntry),
    fails: ["invalid_server_id", "server_not_found", "access_denied", "permission_denied"],
  })

  return { auditActions: actions, routes: { listAuditLog } }
}
