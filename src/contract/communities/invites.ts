import { z } from "zod"
import { omittable, Seconds, Snowflake, Success } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineEvent, defineRoute } from "../core/registry.ts"

/** 12 letters and digits, case matters. */
export const InviteCode = z.string().min(1).max(64)

export const Invite = z
  .object({
    code: z.string(),
    channel_id: Snowflake.nullable(),
    server_id: Snowflake,
    inviter_id: Snowflake.nullable(),
    max_age: z.int().describe("Lifetime in seconds. 0: no expiry"),
    max_uses: z.int().describe("0: no limit"),
    temporary: z.boolean(),
    uses: z.int(),
    created_at: Seconds,
    expires_at: Seconds.nullable(),
  })
  .meta({ id: "InviteResponse" })
export type Invite = z.infer<typeof Invite>
/** The same, under the name that generated clients know it by. */
const MadeInvite = Invite.extend({}).meta({ id: "ChannelInviteResponse" })

export const createInvite = defineRoute({
  method: "POST",
  path: "/channels/:channel_id/invites",
  summary: "Create an invite to the channel's server. Everybody with its code may join, unless they are banned",
  tag: "Channels",
  auth: "user",
  isAudited: true,
  permission: ["invites.create"],
  params: z.object({ channel_id: Snowflake }),
  body: z
    .object({
      max_age: omittable(z.int().min(0).max(limits.inviteAge)).describe(
        `Lifetime in seconds. 0: no expiry. Default ${limits.inviteDefaultAge}`,
      ),
      max_uses: omittable(z.int().min(0).max(limits.inviteUses)),
      temporary: omittable(z.boolean()).describe(
        "A user who joins with it leaves the server when their last gateway session ends, unless they have a role by then",
      ),
    })
    .meta({ id: "InviteCreateRequest" }),
  bodyOptional: true,
  example: { max_age: 86_400, max_uses: 10 },
  reply: MadeInvite,
  fails: ["invalid_channel_id", "channel_not_found", "access_denied", "permission_denied", "invite_limit"],
})

export const listInvites = defineRoute({
  method: "GET",
  path: "/servers/:server_id/invites",
  summary: `The invites of a server that were not revoked, newest first; of those that expired or were used up the latest ${limits.endedInvitesKept.toLocaleString("en")}`,
  tag: "Servers",
  auth: "user",
  permission: ["invites.manage", "server.manage"],
  params: z.object({ server_id: Snowflake }),
  reply: z.array(Invite),
  fails: ["invalid_server_id", "server_not_found", "access_denied", "permission_denied"],
})

export const InviteFacts = z
  .object({
    code: z.string(),
    server_id: Snowflake,
    server_name: z.string(),
    channel_id: Snowflake.nullable(),
    inviter_id: Snowflake.nullable(),
    uses: z.int(),
    max_uses: z.int(),
    expires_at: Seconds.nullable(),
  })
  .meta({ id: "InviteInfoResponse" })

export const getInvite = defineRoute({
  method: "GET",
  path: "/channels/invites/:invite_code",
  summary: "Get the server and channel of an invite",
  tag: "Channels",
  auth: "user",
  openTo: "any signed-in user",
  params: z.object({ invite_code: InviteCode }),
  reply: InviteFacts,
  fails: ["invite_not_found"],
})

export const joinByInvite = defineRoute({
  method: "POST",
  path: "/channels/invites/:invite_code",
  summary: "Join the invite's server. Bots join in the same way",
  tag: "Channels",
  auth: "user",
  openTo: "any signed-in user who is not banned",
  params: z.object({ invite_code: InviteCode }),
  reply: Success.extend({ server_id: Snowflake }),
  fails: ["invite_not_found", "already_member", "banned", "member_limit", "too_many_servers"],
})

export const deleteInvite = defineRoute({
  method: "DELETE",
  path: "/channels/invites/:invite_code",
  summary: "Revoke an invite: one's own invite, or any with `invites.manage` or `server.manage`",
  tag: "Channels",
  auth: "user",
  openTo: "its creator, or a member with `invites.manage` or `server.manage`",
  isAudited: true,
  params: z.object({ invite_code: InviteCode }),
  reply: Success,
  fails: ["invite_not_found", "access_denied", "permission_denied"],
})

export const routes = { createInvite, listInvites, getInvite, joinByInvite, deleteInvite }

const told = Invite.extend({ guild_id: Snowflake })

export const inviteCreate = defineEvent({
  name: "INVITE_CREATE",
  intent: "GUILD_INVITES",
  delivery: "stored",
  summary: "An invite was created. Sent to members who may manage the server",
  data: told,
})

export const inviteDelete = defineEvent({
  name: "INVITE_DELETE",
  intent: "GUILD_INVITES",
  delivery: "stored",
  summary: "An invite was revoked, has expired or was used up. Sent to members who may manage the server",
  data: told,
})
