import { z } from "zod"
import { sample } from "../core/examples.ts"
import { omittable, Seconds, Success, text } from "../core/fields.ts"
import { defineRoute } from "../core/registry.ts"
import { RowId } from "./fields.ts"

const shared = { mount: "operators", auth: "operator", tag: "Operators: security" } as const

/** Of a body: digits, or a number. What is no id is refused with 400 as in a path. */
const UserIdInput = z
  .preprocess(value => (Number.isSafeInteger(value) ? String(value) : value), z.string().max(64))
  .meta({ description: "The id of a user" })

const aboutUser = { trail: { keeps: [] as string[], target: "user_id" } }

export const forceLogout = defineRoute({
  ...shared,
  ...aboutUser,
  method: "POST",
  path: "/admin/security/force-logout",
  summary: "End all sessions of a user, on REST and on the gateway. Of a bot it ends the token",
  body: z.object({ user_id: UserIdInput }).meta({ id: "ForceLogoutRequest" }),
  example: { user_id: sample.other },
  reply: Success,
  fails: ["invalid_user_id", "user_not_found"],
})

export const lockUser = defineRoute({
  ...shared,
  trail: { keeps: ["duration_seconds", "reason"], target: "user_id" },
  method: "POST",
  path: "/admin/security/lock-user",
  summary: "Lock a user and their bots, and end the user's sessions. A lock with a duration ends by itself",
  body: z
    .object({
      user_id: UserIdInput,
      duration_seconds: omittable(z.int().min(1)).describe("Null: permanently"),
      reason: omittable(text(0, 500)).describe("The user is told when they try to sign in"),
    })
    .meta({ id: "LockUserRequest" }),
  example: { user_id: sample.other, duration_seconds: 86_400, reason: "Spam" },
  reply: Success,
  fails: ["invalid_user_id", "user_not_found"],
})

export const unlockUser = defineRoute({
  ...shared,
  ...aboutUser,
  method: "POST",
  path: "/admin/security/unlock-user",
  summary: "End the lock of a user, also one after failed sign-ins",
  body: z.object({ user_id: UserIdInput }).meta({ id: "UnlockUserRequest" }),
  example: { user_id: sample.other },
  reply: Success,
  fails: ["invalid_user_id", "user_not_found"],
})

export const logoutAll = defineRoute({
  ...shared,
  method: "POST",
  path: "/admin/security/logout-all",
  summary:
    "End the sessions of all users. Clients are told, and closed 2 seconds later. Operators stay signed in. Bots' tokens are taken away as well",
  reply: Success,
  fails: [],
})

export const BlockedAddress = z
  .object({
    ip_address: z.string().describe("An address or a CIDR range"),
    reason: z.string().nullable(),
    blocked_at: Seconds,
    blocked_by: RowId.nullable().describe("An operator. Null: somebody at the machine"),
    expires_at: Seconds.nullable().describe("Null: permanently"),
  })
  .meta({ id: "BlockedAddress" })

/** In hours: more than a century. */
const maxHours = 1_000_000

export const listBlockedAddresses = defineRoute({
  ...shared,
  method: "GET",
  path: "/admin/security/blocked-ips",
  summary: "List the blocked addresses and ranges, the newest first",
  reply: z.array(BlockedAddress),
  fails: [],
})

export const blockAddress = defineRoute({
  ...shared,
  trail: { keeps: ["ip_address", "reason", "duration_hours"], target: "ip_address" },
  method: "POST",
  path: "/admin/security/block-ip",
  summary:
    "Block an address or a CIDR range. Within a second every request from there is refused on every worker, and its gateway connections are closed. It replaces an earlier block of the same",
  body: z
    .object({
      ip_address: z.string().max(64),
      reason: omittable(text(0, 500)),
      duration_hours: omittable(z.int().min(1).max(maxHours)).describe("Null: permanently"),
    })
    .meta({ id: "BlockAddressRequest" }),
  example: { ip_address: "192.0.2.7", reason: "Attacks", duration_hours: 24 },
  reply: Success,
  fails: ["invalid_ip_address", "address_not_blockable", "address_block_limit"],
})

export const unblockAddress = defineRoute({
  ...shared,
  method: "DELETE",
  path: "/admin/security/unblock-ip/:ip_address",
  summary: "End the block of an address or a range. No effect if there is none",
  params: z.object({ ip_address: z.string().max(64) }),
  takesRest: true,
  reply: Success,
  fails: ["invalid_ip_address"],
})

export const BannedUsername = z
  .object({
    id: RowId,
    pattern: z.string(),
    is_regex: z.boolean(),
    reason: z.string().nullable(),
    created_at: Seconds,
  })
  .meta({ id: "BannedUsername" })

export const listBannedUsernames = defineRoute({
  ...shared,
  method: "GET",
  path: "/admin/security/banned-usernames",
  summary: "List the names that nobody may take, the newest first",
  reply: z.array(BannedUsername),
  fails: [],
})

export const banUsername = defineRoute({
  ...shared,
  trail: { keeps: ["pattern", "is_regex", "reason"], target: "pattern" },
  method: "POST",
  path: "/admin/security/banned-usernames",
  summary:
    "Ban a name, and what looks like it, or all names in which an expression (RE2) is found. Nobody can take one any more; who has one keeps it",
  body: z
    .object({
      pattern: text(1, 100),
      reason: omittable(text(0, 200)).describe("Told to users who choose such a name"),
      is_regex: omittable(z.boolean()).describe("Default: false"),
    })
    .meta({ id: "BanUsernameRequest" }),
  example: { pattern: "moderator", reason: "Looks official" },
  reply: Success,
  fails: ["invalid_pattern", "pattern_exists", "banned_username_limit"],
})

export const unbanUsername = defineRoute({
  ...shared,
  method: "DELETE",
  path: "/admin/security/banned-usernames/:pattern_id",
  summary: "Lift the ban of a name. No effect if there is none",
  params: z.object({ pattern_id: RowId }),
  reply: Success,
  fails: [],
})

export const routes = {
  forceLogout,
  lockUser,
  unlockUser,
  logoutAll,
  listBlockedAddresses,
  blockAddress,
  unblockAddress,
  listBannedUsernames,
  banUsername,
  unbanUsername,
}
