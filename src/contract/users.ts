import { z } from "zod"
import { Seconds, Snowflake } from "./fields.ts"
import { defineRoute } from "./registry.ts"

/** What everybody sees of a user. */
export const PublicUser = z
  .object({
    id: Snowflake,
    username: z.string(),
    avatar_url: z.string().nullable(),
    created_at: Seconds,
    badges: z.array(z.string()),
  })
  .meta({ id: "UserPublicResponse" })
export type PublicUser = z.infer<typeof PublicUser>

/** What a user sees of himself. `email` is null for bots. */
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
  summary: "The caller's own account",
  tag: "Users",
  auth: "user",
  limit: { requests: 30, seconds: 60, burst: 10, algorithm: "sliding", scope: "user" },
  reply: PrivateUser,
  fails: [],
})

export const getUser = defineRoute({
  method: "GET",
  path: "/users/:user_id",
  summary: "What everybody sees of a user",
  tag: "Users",
  auth: "user",
  params: z.object({ user_id: Snowflake }),
  reply: PublicUser,
  fails: ["invalid_user_id", "user_not_found"],
})

export const routes = { getMe, getUser }
