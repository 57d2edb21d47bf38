import { z } from "zod"
import { sample } from "../core/examples.ts"
import { omittable, Seconds, Snowflake, Success, text } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineRoute } from "../core/registry.ts"
import { PrivateUser } from "./users.ts"

/**
 * The answer to every way of signing in. The three challenge keys are null unless a second factor
 * is asked for.
 */
export const LoginReply = z
  .object({
    status: z.enum(["success", "two_factor_required"]),
    token: z.string().nullable(),
    user: PrivateUser.nullable(),
    challenge_token: z.string().nullable(),
    methods: z.array(z.enum(["totp", "backup_code", "passkey"])).nullable(),
    expires_in: z.int().nullable(),
  })
  .meta({ id: "LoginResponse" })
export type LoginReply = z.infer<typeof LoginReply>

export const RegisterInput = z
  .object({
    username: text(limits.username.min, limits.username.max),
    email: z.string().max(320),
    password: z.string().max(1024),
    age: omittable(z.int().positive().max(200)),
    age_verified: omittable(z.boolean()),
    dob: omittable(z.string().max(32)),
  })
  .meta({ id: "RegisterRequest" })
export type RegisterInput = z.output<typeof RegisterInput>

export const register = defineRoute({
  method: "POST",
  path: "/auth/register",
  summary:
    "Create an account and sign in. If addresses have to be verified, the account is created but the sign-in is refused with 401, and each login is refused with 403 until the address is verified",
  tag: "Authentication",
  auth: "public",
  body: RegisterInput,
  example: { username: sample.username, email: sample.email, password: sample.password },
  reply: LoginReply,
  fails: [
    "invalid_username",
    "reserved_username",
    "blocked_username",
    "invalid_email",
    "email_domain_not_allowed",
    "weak_password",
    "age_required",
    "birth_date_required",
    "invalid_birth_date",
    "too_young",
    "user_exists",
    "registered_unverified",
    "password_login_disabled",
  ],
})

export const LoginInput = z
  .object({
    username: omittable(z.string().min(1).max(320)).describe("Username or email address. Case is ignored"),
    email: omittable(z.string().min(1).max(320)).describe("Alias of `username`"),
    password: z.string().max(1024),
  })
  .refine(body => body.username !== undefined || body.email !== undefined, {
    path: ["username"],
    message: "Field required",
  })
  .meta({ id: "LoginRequest" })

export const login = defineRoute({
  method: "POST",
  path: "/auth/login",
  summary:
    "Sign in with a username or email address and a password. If the account has a second factor, the response is a challenge",
  tag: "Authentication",
  auth: "public",
  body: LoginInput,
  example: { username: sample.username, password: sample.password },
  reply: LoginReply,
  fails: ["invalid_credentials", "account_locked", "email_not_verified", "account_deleted", "password_login_disabled"],
})

export const logout = defineRoute({
  method: "POST",
  path: "/auth/logout",
  summary: "Revoke the session of this request. Its gateway connections close with 4004",
  tag: "Authentication",
  auth: "person",
  isForRenaming: true,
  reply: Success,
  fails: [],
})

export const refresh = defineRoute({
  method: "POST",
  path: "/auth/refresh",
  summary: "Renew the session of this request to the full lifetime. The token stays the same",
  tag: "Authentication",
  auth: "person",
  failsWithoutToken: "missing_token",
  reply: LoginReply,
  fails: ["missing_token"],
})

export const Session = z
  .object({
    id: Snowflake,
    device_id: z.string().nullable(),
    ip_address: z.string(),
    user_agent: z.string(),
    created_at: Seconds,
    expires_at: Seconds,
    last_activity: Seconds,
    current: z.boolean().describe("Whether it is the session of this request"),
  })
  .meta({ id: "SessionResponse" })
export type Session = z.infer<typeof Session>

export const listSessions = defineRoute({
  method: "GET",
  path: "/auth/sessions",
  summary: "List the caller's sessions, latest activity first",
  tag: "Authentication",
  auth: "person",
  reply: z.array(Session),
  fails: [],
})

export const revokeSession = defineRoute({
  method: "DELETE",
  path: "/auth/sessions/:session_id",
  summary: "End one of the caller's sessions. Its gateway connections close with 4004",
  tag: "Authentication",
  auth: "person",
  params: z.object({ session_id: Snowflake }),
  reply: Success,
  fails: ["invalid_session_id", "session_not_found"],
})

export const RevokeAllInput = z
  .object({
    except_current: omittable(z.boolean()).describe("Whether to keep the session of this request. Default `true`"),
  })
  .meta({ id: "RevokeAllSessionsRequest" })

export const RevokeAllReply = z
  .object({ success: z.literal(true), revoked_count: z.int() })
  .meta({ id: "RevokeAllSessionsResponse" })

export const revokeAllSessions = defineRoute({
  method: "POST",
  path: "/auth/sessions/revoke-all",
  summary: "End all sessions of the caller",
  tag: "Authentication",
  auth: "person",
  body: RevokeAllInput,
  example: { except_current: true },
  reply: RevokeAllReply,
  fails: [],
})

export const PasswordRequirements = z
  .object({
    min_length: z.int(),
    max_length: z.int(),
    require_uppercase: z.boolean(),
    require_lowercase: z.boolean(),
    require_digit: z.boolean(),
    require_special: z.boolean(),
    age_gate_enabled: z.boolean(),
    age_verification_type: z.enum(["boolean", "dob"]),
    minimum_age: z.int().nullable(),
    docs_enabled: z.boolean(),
  })
  .meta({ id: "PasswordRequirements" })
export type PasswordRequirements = z.infer<typeof PasswordRequirements>

export const getPasswordRequirements = defineRoute({
  method: "GET",
  path: "/auth/password-requirements",
  summary: "Get the password policy and the minimum age",
  tag: "Authentication",
  auth: "public",
  isGated: false,
  reply: PasswordRequirements,
  fails: [],
})

export const routes = {
  register,
  login,
  logout,
  refresh,
  listSessions,
  revokeSession,
  revokeAllSessions,
  getPasswordRequirements,
}
