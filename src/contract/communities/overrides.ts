import { z } from "zod"
import { Snowflake, Success } from "../core/fields.ts"
import { defineRoute } from "../core/registry.ts"

export const Override = z
  .object({
    channel_id: Snowflake,
    target_id: Snowflake,
    type: z.enum(["role", "member"]),
    allow: z.array(z.string()),
    deny: z.array(z.string()),
  })
  .meta({ id: "OverrideResponse" })
export type Override = z.infer<typeof Override>

const byTarget = z.object({ channel_id: Snowflake, target_id: Snowflake })
const Flags = z.array(z.string().max(64)).max(100).describe("Permission names; unknown ones are ignored")

export const listOverrides = defineRoute({
  method: "GET",
  path: "/channels/:channel_id/permissions",
  summary: "List the permission overrides of a channel",
  tag: "Channels",
  auth: "user",
  permission: ["roles.manage"],
  params: z.object({ channel_id: Snowflake }),
  reply: z.array(Override),
  fails: ["invalid_channel_id", "channel_not_found", "access_denied", "permission_denied"],
})

export const getOverride = defineRoute({
  method: "GET",
  path: "/channels/:channel_id/permissions/:target_id",
  summary: "Get a channel's permission override for a role or a member",
  tag: "Channels",
  auth: "user",
  permission: ["roles.manage"],
  params: byTarget,
  reply: Override,
  fails: [
    "invalid_channel_id",
    "invalid_id",
    "channel_not_found",
    "access_denied",
    "permission_denied",
    "override_not_found",
  ],
})

export const setOverride = defineRoute({
  method: "PUT",
  path: "/channels/:channel_id/permissions/:target_id",
  summary: "Set a channel's permission override for a role or a member. If a permission is in both lists, `allow` wins",
  tag: "Channels",
  auth: "user",
  isAudited: true,
  permission: ["roles.manage"],
  params: byTarget,
  body: z.object({ type: z.enum(["role", "member"]), allow: Flags, deny: Flags }).meta({ id: "OverrideRequest" }),
  example: { type: "role", allow: ["messages.send"], deny: ["messages.attach_files"] },
  reply: Override,
  fails: [
    "invalid_channel_id",
    "invalid_id",
    "channel_not_found",
    "access_denied",
    "permission_denied",
    "member_or_role_not_found",
    "rank_too_low",
    "override_limit",
  ],
})

export const deleteOverride = defineRoute({
  method: "DELETE",
  path: "/channels/:channel_id/permissions/:target_id",
  summary: "Remove a channel's permission override for a role or a member",
  tag: "Channels",
  auth: "user",
  isAudited: true,
  permission: ["roles.manage"],
  params: byTarget,
  reply: Success,
  fails: [
    "invalid_channel_id",
    "invalid_id",
    "channel_not_found",
    "access_denied",
    "permission_denied",
    "override_not_found",
    "rank_too_low",
  ],
})

export const routes = { listOverrides, getOverride, setOverride, deleteOverride }
