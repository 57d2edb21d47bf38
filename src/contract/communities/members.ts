import { z } from "zod"
import { omittable, queryInt, Seconds, Snowflake, text, nameText } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineRoute } from "../core/registry.ts"
import { Member } from "./servers.ts"

/** A member in a list of members, with their presence as the caller sees it. */
export const ListedMember = Member.extend({
  presence: z.object({ status: z.enum(["online", "idle", "dnd", "offline"]) }),
}).meta({ id: "MemberResponse" })
export type ListedMember = z.infer<typeof ListedMember>

const byServer = z.object({ server_id: Snowflake })
const byMember = z.object({ server_id: Snowflake, member_id: Snowflake })

const { most, usual } = limits.membersPage

export const listMembers = defineRoute({
  method: "GET",
  path: "/servers/:server_id/members",
  summary: "List the members of a server, by user id",
  tag: "Servers",
  auth: "user",
  permission: "member",
  params: byServer,
  query: z.object({
    limit: omittable(queryInt(1, most)).describe(`1 to ${most}; default ${usual}`),
    after: omittable(Snowflake).describe("Only members with a higher user id"),
  }),
  reply: z.array(ListedMember),
  fails: ["invalid_server_id", "server_not_found", "access_denied"],
})

export const getMember = defineRoute({
  method: "GET",
  path: "/servers/:server_id/members/:member_id",
  summary: "Get one member of a server",
  tag: "Servers",
  auth: "user",
  permission: "member",
  params: byMember,
  reply: ListedMember,
  fails: ["invalid_server_id", "invalid_id", "server_not_found", "access_denied", "member_not_found"],
})

/** One line, as it stands beside messages. */
const nickname = z
  .string()
  .transform(value => value.trim())
  .pipe(nameText(0, limits.nickname).refine(value => !/[\p{Cc}\p{Zl}\p{Zp}]/u.test(value), "must be one line"))

export const MemberPatch = z
  .object({
    nickname: omittable(nickname).describe(
      `1 to ${limits.nickname} characters without spaces at either end. Empty string: none`,
    ),
    timeout_until: omittable(Seconds.min(0)).describe("In the future, at most 28 days from now. 0: ends the time-out"),
    timeout_seconds: omittable(z.int().min(0).max(limits.timeoutSeconds)).describe(
      "Duration from now, instead of `timeout_until`. 0: ends the time-out",
    ),
    timeout_reason: omittable(text(0, limits.timeoutReason)).describe(
      "The reason for a time-out. Every member can see it",
    ),
  })
  .refine(
    ({ timeout_until, timeout_seconds }) => timeout_until === undefined || timeout_seconds === undefined,
    "timeout_until and timeout_seconds are two ways to say the same: send one of them",
  )
  .refine(
    ({ timeout_until, timeout_seconds, timeout_reason }) =>
      timeout_reason === undefined || timeout_until !== undefined || timeout_seconds !== undefined,
    "timeout_reason goes with timeout_until or timeout_seconds",
  )
  .meta({ id: "MemberUpdateRequest" })

export const editMember = defineRoute({
  method: "PATCH",
  path: "/servers/:server_id/members/:member_id",
  summary:
    "Change a member: the nickname (one's own always, of other members with `members.manage_nicknames`) or a time-out (`members.kick`). Other members must rank below the caller. The owner and administrators cannot be timed out",
  tag: "Servers",
  auth: "user",
  openTo:
    "any member for their own nickname; `members.manage_nicknames` for the nickname of others; `members.kick` for time-outs",
  isAudited: true,
  permission: "member",
  params: byMember,
  body: MemberPatch,
  example: { nickname: "Countess" },
  reply: ListedMember,
  fails: [
    "invalid_server_id",
    "invalid_id",
    "server_not_found",
    "access_denied",
    "permission_denied",
    "member_not_found",
    "rank_too_low",
    "invalid_timeout",
    "administrator_timeout",
  ],
})

export const editOwnMember = defineRoute({
  method: "PATCH",
  path: "/servers/:server_id/members/@me",
  summary: "Change the caller's own nickname in a server",
  tag: "Servers",
  auth: "user",
  isAudited: true,
  permission: "member",
  params: byServer,
  body: z
    .object({ nickname: omittable(nickname).describe("Empty string: none") })
    .meta({ id: "OwnMemberUpdateRequest" }),
  example: { nickname: "Ada L." },
  reply: ListedMember,
  fails: ["invalid_server_id", "server_not_found", "access_denied"],
})

export const routes = { listMembers, getMember, editMember, editOwnMember }
