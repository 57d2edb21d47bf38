import { z } from "zod"
import { omittable, Seconds, Snowflake, text } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { identityProof } from "./identity-proof.ts"
import { defineEvent, defineRoute } from "../core/registry.ts"

/** What everybody sees of a user. */
export const PublicUser = z
  .object({
    id: Snowflake,
    username: z.string(),
    avatar_url: z.string().nullable(),
    created_at: Seconds,
    badges: z.array(z.string()),
    bot: z.boolean(),
  })
  .meta({ id: "UserPublicResponse" })
export type PublicUser = z.infer<typeof PublicUser>

/** What users see of themselves. `email` is null for bots. */
export const PrivateUser = PublicUser.extend({
  email: z.string().nullable(),
  email_verified: z.boolean(),
  totp_enabled: z.boolean(),
  age_verified: z.boolean(),
  deletion_status: z.enum(["active", "frozen", "purged"]),
  deletion_at: Seconds.nullable(),
}).meta({ id: "UserResponse" })
export type PrivateUser = z.infer<typeof PrivateUser>

export const avatarPath = (userId: Snowflake) => `/api/v1/avatars/users/${userId}`

export const getMe = defineRoute({
  method: "GET",
  path: "/users/@me",
  summary: "Get the caller's own account, with what others do not see of it",
  tag: "Users",
  auth: "user",
  isForRenaming: true,
  reply: PrivateUser,
  fails: [],
})

/** Fewer characters are no password at all; whether more will do is the policy's affair. */
const shortestPassword = 8

export const EditMeInput = z
  .object({
    username: omittable(text(limits.username.min, limits.username.max)),
    email: omittable(z.string().max(320)).describe(
      "A new address needs `current_password`, and `code` if a second factor is set up. Without a password, the sign-in must be at most ten minutes old. The address before is sent a link that restores it, valid for 72 hours; while five of these are open, a further change is refused",
    ),
    password: omittable(text(shortestPassword, 1024)).describe(
      "The new password. Changing it ends the caller's other sessions",
    ),
    current_password: omittable(z.string().max(1024)).describe(
      "Required with `password`, and with a new `email` if the account has a password",
    ),
    code: identityProof.code.describe(
      "A code of the second factor or a backup code. Required with a new `email` if a second factor is set up",
    ),
  })
  .meta({ id: "UserUpdateRequest" })

export const editMe = defineRoute({
  method: "PATCH",
  path: "/users/@me",
  summary: "Change the caller's name, address or password. Omitted fields stay unchanged",
  tag: "Users",
  auth: "user",
  isForRenaming: true,
  body: EditMeInput,
  example: { username: "ada_lovelace" },
  reply: PrivateUser,
  fails: [
    "people_only",
    "invalid_username",
    "reserved_username",
    "blocked_username",
    "username_too_similar",
    "invalid_email",
    "email_domain_not_allowed",
    "weak_password",
    "missing_current_password",
    "incorrect_current_password",
    "fresh_sign_in_required",
    "second_factor_code_required",
    "wrong_code",
    "account_locked",
    "user_exists",
    "too_many_email_changes",
  ],
})

export const findUser = defineRoute({
  method: "GET",
  path: "/users/search",
  summary: "Find a user by their full name, case ignored",
  tag: "Users",
  auth: "user",
  query: z.object({ username: z.string().max(256).optional() }),
  reply: PublicUser,
  fails: ["username_required", "user_not_found"],
})

export const getUser = defineRoute({
  method: "GET",
  path: "/users/:user_id",
  summary: "Get the public profile of a user",
  tag: "Users",
  auth: "user",
  params: z.object({ user_id: Snowflake }),
  reply: PublicUser,
  fails: ["invalid_user_id", "user_not_found"],
})

export const routes = { getMe, editMe, findUser, getUser }

/** A user as others store them. */
export const ShownUser = PublicUser.omit({ created_at: true })
export type ShownUser = z.infer<typeof ShownUser>

export const userUpdate = defineEvent({
  name: "USER_UPDATE",
  intent: null,
  delivery: "stored",
  summary:
    "A user's name, picture or badges changed. Sent to users who have them among friends or requests and to members of their servers, possibly more than once. The user's own sessions also receive the address, which may be the change",
  data: ShownUser.extend({ email: z.string().nullable().optional().describe("Only in the user's own sessions") }),
})
