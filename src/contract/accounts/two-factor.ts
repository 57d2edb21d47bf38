import { z } from "zod"
import { LoginReply } from "./auth.ts"
import { sample } from "../core/examples.ts"
import { Success } from "../core/fields.ts"
import { defineRoute } from "../core/registry.ts"

const tag = "Two-factor authentication"

export const SecondStepInput = z
  .object({
    challenge_token: z.string().max(128),
    code: z
      .string()
      .min(6)
      .max(9)
      .describe("6 digits of an authenticator app, or a backup code with or without its dash"),
  })
  .meta({ id: "TwoFactorRequest" })

export const completeTwoFactor = defineRoute({
  method: "POST",
  path: "/auth/2fa",
  summary: "Complete a sign-in with the second factor. A challenge is valid for one session. Five wrong codes end it",
  tag,
  auth: "public",
  body: SecondStepInput,
  example: { challenge_token: sample.secret, code: sample.code },
  reply: LoginReply,
  fails: ["invalid_challenge", "used_challenge", "expired_challenge", "invalid_second_factor", "account_locked"],
})

export const TwoFactorStatus = z
  .object({
    enabled: z.boolean(),
    backup_codes_remaining: z.int().describe("While a setup is not confirmed: the codes that it prepared"),
  })
  .meta({ id: "TwoFactorStatusResponse" })

export const getTwoFactorStatus = defineRoute({
  method: "GET",
  path: "/auth/2fa/status",
  summary: "Get the state of the caller's second factor",
  tag,
  auth: "person",
  reply: TwoFactorStatus,
  fails: ["user_not_found"],
})

export const EnableTwoFactorInput = z.object({ password: z.string().max(1024) }).meta({ id: "TwoFactorEnableRequest" })

export const TwoFactorSetup = z
  .object({
    secret: z.string().describe("32 characters of base32"),
    qr_uri: z.string().describe("`otpauth://totp/…`, for a QR code"),
    backup_codes: z.array(z.string()).describe("`XXXX-XXXX`, each valid for one sign-in. Shown only once"),
  })
  .meta({ id: "TwoFactorSetupResponse" })

export const enableTwoFactor = defineRoute({
  method: "POST",
  path: "/auth/2fa/enable",
  summary: "Prepare a second factor. It takes effect once it is confirmed. Calling this again replaces the secret",
  tag,
  auth: "person",
  body: EnableTwoFactorInput,
  example: { password: sample.password },
  reply: TwoFactorSetup,
  fails: ["password_required", "invalid_password", "second_factor_enabled", "account_locked"],
})

export const ConfirmTwoFactorInput = z.object({ code: z.string().max(64) }).meta({ id: "TwoFactorConfirmRequest" })

export const confirmTwoFactor = defineRoute({
  method: "POST",
  path: "/auth/2fa/confirm",
  summary: "Enable the prepared second factor",
  tag,
  auth: "person",
  body: ConfirmTwoFactorInput,
  example: { code: sample.code },
  reply: Success,
  fails: ["six_digits_required", "second_factor_not_started", "invalid_code", "account_locked"],
})

export const DisableTwoFactorInput = z
  .object({ password: z.string().max(1024), code: z.string().max(64) })
  .meta({ id: "TwoFactorDisableRequest" })

export const disableTwoFactor = defineRoute({
  method: "POST",
  path: "/auth/2fa/disable",
  summary: "Disable the second factor with a code of the app or a backup code",
  tag,
  auth: "person",
  body: DisableTwoFactorInput,
  example: { password: sample.password, code: sample.code },
  reply: Success,
  fails: [
    "password_required",
    "second_factor_code_required",
    "second_factor_not_enabled",
    "invalid_password",
    "invalid_second_factor",
    "account_locked",
  ],
})

export const routes = { completeTwoFactor, getTwoFactorStatus, enableTwoFactor, confirmTwoFactor, disableTwoFactor }
