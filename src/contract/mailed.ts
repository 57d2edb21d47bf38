import { z } from "zod"
import { Success } from "./fields.ts"
import { defineRoute } from "./registry.ts"

const address = z.object({ email: z.string().max(320) })
const MailedToken = z
  .string()
  .max(256)
  .describe("As the link in the mail has it behind its `#`; good once, and only for the address it was sent to")

export const requestPasswordReset = defineRoute({
  method: "POST",
  path: "/auth/password-reset/request",
  summary:
    "Mail a link with which a new password can be set within an hour. The answer is the same whether anybody has the address",
  tag: "Authentication",
  auth: "public",
  body: address.meta({ id: "PasswordResetRequest" }),
  reply: Success,
  fails: [],
})

export const confirmPasswordReset = defineRoute({
  method: "POST",
  path: "/auth/password-reset/confirm",
  summary:
    "Set a new password with a mailed token. Every session ends, and so do open second steps and other mailed links; the address counts as verified",
  tag: "Authentication",
  auth: "public",
  body: z.object({ token: MailedToken, new_password: z.string().max(1024) }).meta({ id: "PasswordResetConfirmation" }),
  reply: Success,
  fails: ["invalid_token", "weak_password"],
})

export const verifyEmail = defineRoute({
  method: "POST",
  path: "/auth/verify-email",
  summary: "Verify the address of an account with a mailed token, which lasts a day",
  tag: "Authentication",
  auth: "public",
  body: z.object({ token: MailedToken }).meta({ id: "EmailVerification" }),
  reply: Success,
  fails: ["invalid_token"],
})

export const resendVerification = defineRoute({
  method: "POST",
  path: "/auth/verify-email/resend",
  summary:
    "Mail the link that verifies an address again; the one before is void. The answer is the same whether anybody has the address",
  tag: "Authentication",
  auth: "public",
  body: address.meta({ id: "EmailVerificationRequest" }),
  reply: Success,
  fails: [],
})

export const routes = { requestPasswordReset, confirmPasswordReset, verifyEmail, resendVerification }
