import { z } from "zod"
import { sample } from "../core/examples.ts"
import { omittable, Seconds, Success, text } from "../core/fields.ts"
import { defineRoute } from "../core/registry.ts"
import { RowId } from "./fields.ts"

/** Where a sign-in stands. */
export const OperatorLogin = z
  .object({
    status: z.enum(["success", "otp_required", "otp_setup_required"]),
    token: z.string().nullable().describe("Of the session, which lasts 8 hours: `Authorization: Bearer <token>`"),
    admin_id: RowId.nullable(),
    otp_secret: z.string().nullable().describe("For an authenticator app, in base32"),
    otp_qr_uri: z.string().nullable().describe("The same as an `otpauth://` URI, for a QR code"),
    message: z.string().nullable(),
    challenge_token: z.string().nullable().describe("For `POST /admin/verify-otp`, within 5 minutes"),
    backup_codes: z
      .array(z.string())
      .optional()
      .describe("Only after a set-up: each can replace a code of the app once. They are not shown again"),
  })
  .meta({ id: "OperatorLoginResponse" })
export type OperatorLogin = z.infer<typeof OperatorLogin>

const password = text(1, 200)
const ByPassword = z.object({ current_password: password }).meta({ id: "OperatorPasswordRequest" })
const area = { mount: "operators", tag: "Operators" } as const

export const operatorLogin = defineRoute({
  ...area,
  method: "POST",
  path: "/admin/login",
  summary: "Begin to sign an operator in",
  auth: "public",
  body: z.object({ username: text(1, 100), password }).meta({ id: "OperatorLoginRequest" }),
  example: { username: sample.operator, password: sample.password },
  reply: OperatorLogin,
  fails: ["invalid_credentials", "operator_locked"],
})

export const verifyOperatorOtp = defineRoute({
  ...area,
  method: "POST",
  path: "/admin/verify-otp",
  summary: "Complete a sign-in, or the set-up of an authenticator app, with a code",
  auth: "public",
  body: z
    .object({
      admin_id: z
        .preprocess(value => (typeof value === "number" ? String(value) : value), z.string().max(100))
        .describe("A string of digits, or an integer"),
      code: text(6, 16).describe("Of the app; a backup code will do where an app is set up"),
      is_setup: omittable(z.boolean()).describe("Default false"),
      challenge_token: text(10, 200),
    })
    .meta({ id: "OperatorOtpRequest" }),
  example: { admin_id: sample.user, code: sample.code, challenge_token: sample.secret },
  reply: OperatorLogin,
  fails: [
    "invalid_operator_id",
    "invalid_operator_challenge",
    "operator_not_found",
    "operator_otp_not_configured",
    "invalid_operator_code",
    "operator_locked",
  ],
})

export const operatorLogout = defineRoute({
  ...area,
  method: "POST",
  path: "/admin/logout",
  summary: "End the operator's session. Without a token nothing happens",
  auth: "public",
  reply: Success,
  fails: [],
})

export const changeOperatorPassword = defineRoute({
  ...area,
  method: "POST",
  path: "/admin/auth/change-password",
  summary: "Change the operator's password, and end their other sessions",
  auth: "operator",
  body: z
    .object({ current_password: password, new_password: text(12, 200) })
    .meta({ id: "OperatorPasswordChangeRequest" }),
  example: { current_password: sample.password, new_password: "Another-Horse-8-Battery" },
  reply: Success,
  fails: ["wrong_operator_password", "operator_locked"],
})

export const getOperatorSecurity = defineRoute({
  ...area,
  method: "GET",
  path: "/admin/auth/security-status",
  summary: "Get how the operator's account is secured",
  auth: "operator",
  reply: z
    .object({
      admin_id: RowId,
      username: z.string(),
      email: z.string().nullable(),
      created_at: Seconds,
      last_login: Seconds.nullable(),
      otp_required: z.boolean().describe("Whether operators need a code to sign in"),
      otp_enabled: z.boolean(),
      must_setup_otp: z.boolean().describe("The next sign-in sets an authenticator app up, if operators need one"),
      backup_codes_remaining: z.int(),
    })
    .meta({ id: "OperatorSecurityResponse" }),
  fails: [],
})

export const beginOperatorOtp = defineRoute({
  ...area,
  method: "POST",
  path: "/admin/auth/2fa/begin-setup",
  summary: "Set another authenticator app up. The one in use stays until a code of the new one was right",
  auth: "operator",
  body: ByPassword,
  example: { current_password: sample.password },
  reply: OperatorLogin,
  fails: ["wrong_operator_password", "operator_locked"],
})

export const disableOperatorOtp = defineRoute({
  ...area,
  method: "POST",
  path: "/admin/auth/2fa/disable",
  summary: "Remove the authenticator app and the backup codes",
  auth: "operator",
  body: z.object({ current_password: password, code: text(6, 16) }).meta({ id: "OperatorOtpRemovalRequest" }),
  example: { current_password: sample.password, code: sample.code },
  reply: Success,
  fails: ["wrong_operator_password", "operator_otp_not_enabled", "wrong_operator_code", "operator_locked"],
})

export const renewOperatorBackupCodes = defineRoute({
  ...area,
  method: "POST",
  path: "/admin/auth/2fa/regenerate-backup-codes",
  summary: "Replace the backup codes",
  auth: "operator",
  body: ByPassword,
  example: { current_password: sample.password },
  reply: z
    .object({ success: z.literal(true), backup_codes: z.array(z.string()) })
    .meta({ id: "OperatorBackupCodesResponse" }),
  fails: ["wrong_operator_password", "operator_otp_required", "operator_locked"],
})

export const routes = {
  operatorLogin,
  verifyOperatorOtp,
  operatorLogout,
  changeOperatorPassword,
  getOperatorSecurity,
  beginOperatorOtp,
  disableOperatorOtp,
  renewOperatorBackupCodes,
}
