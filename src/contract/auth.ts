import { z } from "zod"
import { omittable, Success, text } from "./fields.ts"
import { limits } from "./limits.ts"
import { defineRoute } from "./registry.ts"
import { PrivateUser } from "./users.ts"

/** The answer to every way of signing in. The three challenge keys are null unless a second factor is asked for. */
export const LoginReply = z
  .object({
    status: z.enum(["success", "two_factor_required"]),
    token: z.string().nullable(),
    user: PrivateUser.nullable(),
    challenge_token: z.string().nullable(),
    methods: z.array(z.enum(["totp", "backup_code"])).nullable(),
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
  summary: "Create an account and sign in",
  tag: "Authentication",
  auth: "public",
  limit: { requests: 3, seconds: 60, burst: 0, algorithm: "fixed", scope: "route" },
  body: RegisterInput,
  reply: LoginReply,
  fails: [
    "invalid_username",
    "reserved_username",
    "invalid_email",
    "weak_password",
    "age_required",
    "birth_date_required",
    "invalid_birth_date",
    "too_young",
    "user_exists",
  ],
})

export const LoginInput = z
  .object({
    username: omittable(z.string().min(1).max(320)).describe("Username or e-mail address, case ignored"),
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
  summary: "Sign in with name or e-mail and password",
  tag: "Authentication",
  auth: "public",
  limit: { requests: 5, seconds: 60, burst: 0, algorithm: "fixed", scope: "route" },
  body: LoginInput,
  reply: LoginReply,
  fails: ["invalid_credentials", "account_locked"],
})

export const logout = defineRoute({
  method: "POST",
  path: "/auth/logout",
  summary: "Revoke the session of this request; its gateway connections close with 4004",
  tag: "Authentication",
  auth: "user",
  reply: Success,
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
  summary: "Password policy and age gate",
  tag: "Authentication",
  auth: "public",
  reply: PasswordRequirements,
  fails: [],
})

export const routes = { register, login, logout, getPasswordRequirements }
