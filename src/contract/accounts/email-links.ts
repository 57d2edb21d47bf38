import { z } from "zod"
import { sample } from "../core/examples.ts"
import { Success } from "../core/fields.ts"
import { defineRoute } from "../core/registry.ts"

const address = z.object({ email: z.string().max(320) })
const MailedToken = z
  .string()
  .max(256)
  .describe(
    "The token after the `#` in the link of the email. Valid once, and only for the address that it was sent to",
  )

export const requestPasswordReset = defineRoute({
  method: "POST",
  path: "/auth/password-reset/request",
  summary:
    "Send an email with a link to set a new password, valid for an hour. The response is the same for unknown addresses",
  tag: "Authentication",
  auth: "public",
  body: address.meta({ id: "PasswordResetRequest" }),
  example: { email: sample.email },
  reply: Success,
  fails: [],
})

export const confirmPasswordReset = defineRoute({
  method: "POST",
  path: "/auth/password-reset/confirm",
  summary:
    "Set a new password with the token from an email. All sessions, unfinished sign-ins and other emailed links end. The address counts as verified",
  tag: "Authentication",
  auth: "public",
  body: z.object({ token: MailedToken, new_password: z.string().max(1024) }).meta({ id: "PasswordResetConfirmation" }),
  example: { token: sample.secret, new_password: "Another-Horse-8-Battery" },
  reply: Success,
  fails: ["invalid_token", "weak_password"],
})

export const verifyEmail = defineRoute({
  method: "POST",
  path: "/auth/verify-email",
  summary: "Verify the address of an account with the token from an email, valid for a day",
  tag: "Authentication",
  auth: "public",
  body: z.object({ token: MailedToken }).meta({ id: "EmailVerification" }),
  example: { token: sample.secret },
  reply: Success,
  fails: ["invalid_token"],
})

export const resendVerification = defineRoute({
  method: "POST",
  path: "/auth/verify-email/resend",
  summary:
    "Send the verification email again. Of its links the last three are valid. The response is the same for unknown addresses",
  tag: "Authentication",
  auth: "public",
  body: address.meta({ id: "EmailVerificationRequest" }),
  example: { email: sample.email },
  reply: Success,
  fails: [],
})

export const restoreEmail = defineRoute({
  method: "POST",
  path: "/auth/restore-email",
  summary:
    "Bring an account back to the address that it has left, with the token from the email to that address, valid for 72 hours. All sessions end, the password is removed, a second factor is the one of then, and an email with a link for a new password is sent",
  tag: "Authentication",
  auth: "public",
  body: z
    .object({
      token: z
        .string()
        .max(256)
        .describe("The token after the `#` in the link of the email. Valid once, also after further changes"),
    })
    .meta({ id: "EmailRestoration" }),
  example: { token: sample.secret },
  reply: Success,
  fails: ["invalid_token", "user_exists", "account_deleted"],
})

export const routes = { requestPasswordReset, confirmPasswordReset, verifyEmail, resendVerification, restoreEmail }
