import { z } from "zod"
import { omittable, querySeconds, Seconds, Snowflake, Success, text } from "../core/fields.ts"
import { defineRoute } from "../core/registry.ts"
import { byUser, listQuery } from "./fields.ts"

/** An account in a list of operators. */
export const UserRow = z
  .object({
    id: Snowflake,
    username: z.string(),
    email: z.literal("[Encrypted]").nullable().describe("Null: the account has no address. It is never shown"),
    tier: z.string().describe("The current tier"),
    badges: z.array(z.string()),
    created_at: Seconds,
    deletion_status: z.enum(["active", "frozen", "purged"]),
    deletion_at: Seconds.nullable(),
    bot: z.boolean(),
    account_locked: z
      .boolean()
      .describe("By an operator. In the detail of an account also after failed sign-ins, which keeps no session out"),
  })
  .meta({ id: "OperatorUserRow" })
export type UserRow = z.infer<typeof UserRow>

export const UserDetail = UserRow.extend({
  last_login: Seconds.nullable(),
  locked_until: Seconds.nullable().describe("Null with `account_locked`: permanently"),
  lock_kind: z.enum(["operator", "failed_logins"]).nullable().describe("Of the lock that lasts longer"),
  lock_reason: z.string().nullable(),
  force_username_change: z.boolean(),
  rename_reason: z.string().nullable(),
  totp_enabled: z.boolean(),
  permissions: z.array(z.string()).describe("Of the whole service"),
  owner_id: Snowflake.nullable().describe("Of a bot"),
  session_count: z.int().describe("Sessions, of which a force-logout ends all"),
  owned_server_count: z.int().describe("Servers, which a purge deletes"),
  bot_count: z.int().describe("Bots, which share the locks of the account and its end"),
}).meta({ id: "OperatorUserDetail" })
export type UserDetail = z.infer<typeof UserDetail>

export const ScheduledDeletion = z
  .object({
    user_id: Snowflake,
    username: z.string(),
    scheduled_at: Seconds.describe("30 days before `deletion_at`"),
    deletion_at: Seconds,
    days_left: z.int().nonnegative().describe("Whole days"),
  })
  .meta({ id: "ScheduledDeletion" })

const tag = "Operators: users"
const shared = { mount: "operators", tag, auth: "operator" } as const

export const findAccounts = defineRoute({
  ...shared,
  method: "GET",
  path: "/admin/users/search",
  summary: "Find users. Digits are the id of one; other text is part of a name, in any case. The newest first",
  query: z.object({ q: text(1, 100), ...listQuery(20) }),
  reply: z.object({ users: z.array(UserRow) }).meta({ id: "OperatorUserList" }),
  fails: [],
})

export const listScheduledDeletions = defineRoute({
  ...shared,
  method: "GET",
  path: "/admin/users/scheduled-deletions",
  summary: "List the accounts that are to be deleted, the soonest first. At most 1,000",
  reply: z.object({ deletions: z.array(ScheduledDeletion) }).meta({ id: "ScheduledDeletionList" }),
  fails: [],
})

export const getUserDetail = defineRoute({
  ...shared,
  method: "GET",
  path: "/admin/users/:user_id",
  summary: "Get what operators may know of an account",
  params: byUser,
  reply: UserDetail,
  fails: ["invalid_user_id", "user_not_found"],
})

export const getUserNotes = defineRoute({
  ...shared,
  method: "GET",
  path: "/admin/users/:user_id/notes",
  summary: "Get what operators noted about a user. Users never see it",
  params: byUser,
  reply: z.object({ user_id: Snowflake, notes: z.string() }).meta({ id: "UserNotes" }),
  fails: ["invalid_user_id", "user_not_found"],
})

export const setUserNotes = defineRoute({
  ...shared,
  method: "POST",
  path: "/admin/users/:user_id/notes",
  summary: "Replace what operators noted about a user",
  params: byUser,
  body: z.object({ notes: text(0, 5000) }).meta({ id: "UserNotesRequest" }),
  example: { notes: "Was warned in March" },
  reply: Success,
  fails: ["invalid_user_id", "user_not_found"],
})

export const forceUsernameChange = defineRoute({
  ...shared,
  method: "POST",
  path: "/admin/users/:user_id/force-username-change",
  summary:
    "Make a user take another name before anything else. The new one must not be more than 80 % similar to the present one",
  trail: { keeps: ["ban_current", "reason"] },
  params: byUser,
  body: z
    .object({
      ban_current: omittable(z.boolean()).describe("Whether the present name is banned as well. Default: false"),
      reason: omittable(text(0, 200)).describe("The user is told. Default: `Forced change by admin`"),
    })
    .meta({ id: "ForceUsernameChange" }),
  bodyOptional: true,
  example: { reason: "Impersonates somebody", ban_current: true },
  reply: Success,
  fails: ["invalid_user_id", "user_not_found", "bot_rename", "banned_username_limit"],
})

/** Clients of later versions use PATCH. */
const cancelDeletionBy = (method: "POST" | "PATCH") =>
  defineRoute({
    ...shared,
    method,
    path: "/admin/users/:user_id/cancel-deletion",
    summary: "Cancel the deletion of an account. No effect if none is scheduled",
    params: byUser,
    reply: Success,
    fails: ["invalid_user_id", "user_not_found", "not_scheduled_for_deletion"],
  })
export const cancelDeletion = cancelDeletionBy("POST")
export const cancelDeletionByPatch = cancelDeletionBy("PATCH")

const delayDeletionBy = (method: "POST" | "PATCH") =>
  defineRoute({
    ...shared,
    method,
    path: "/admin/users/:user_id/delay-deletion",
    summary: "Move the deletion of an account to another time, at most 10 years ahead",
    trail: { keeps: ["deletion_at"] },
    params: byUser,
    query: z.object({ deletion_at: querySeconds }),
    reply: Success,
    fails: ["invalid_user_id", "user_not_found", "not_scheduled_for_deletion", "deletion_in_the_past"],
  })
export const delayDeletion = delayDeletionBy("POST")
export const delayDeletionByPatch = delayDeletionBy("PATCH")

export const forcePurge = defineRoute({
  ...shared,
  method: "POST",
  path: "/admin/users/:user_id/force-purge",
  summary:
    "Erase an account at once, whatever its status, with its bots and the servers that they own. It cannot be undone",
  params: byUser,
  reply: Success,
  fails: ["invalid_user_id", "user_not_found"],
})

export const routes = {
  findAccounts,
  listScheduledDeletions,
  getUserDetail,
  getUserNotes,
  setUserNotes,
  forceUsernameChange,
  cancelDeletion,
  cancelDeletionByPatch,
  delayDeletion,
  delayDeletionByPatch,
  forcePurge,
}
