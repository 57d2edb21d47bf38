import { userActor } from "../../actors/user.ts"
import { readToken } from "../../cluster/one-time-tokens.ts"
import { fail } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import { sendMail } from "../../contract/core/jobs.ts"
import type { routes } from "../../contract/accounts/email-links.ts"
import { secondsAt } from "../../std/clock.ts"
import { isEmailAddress } from "../../domain/accounts/email-addresses.ts"
import { openToken } from "../../domain/accounts/one-time-tokens.ts"
import type { MailKind, RequestedMail } from "../../storage/accounts/mails.ts"
import type { Handlers } from "../server/handlers.ts"
import { requireStrong } from "./password-rules.ts"
import { invalid } from "../server/validation.ts"
import type { Http, Jobs, Policy, Uses } from "../shared/http.ts"
import type { PasswordRules } from "../../domain/accounts/passwords.ts"
import type { Hashing } from "../../integrations/password-hashing.ts"

type EmailLinkNeeds = MailNeeds &
  Http<"oneTimeTokens"> &
  Uses<{ readonly hashing: Pick<Hashing, "hash"> }> &
  Policy<PasswordRules>

export type MailNeeds = Pick<Http<"mails">, "storage" | "clock"> &
  Policy<{ readonly mails_per_hour: number }> & { readonly jobs: Pick<Jobs, "add"> }

/** Requests a mail to the owner of an address, without saying whether it has one. */
export const createMailRequests =
  ({ storage, jobs, policy, clock }: MailNeeds) =>
  async (kind: RequestedMail, email: string): Promise<void> => {
    const now = secondsAt(clock())
    const mail_id = await storage.mails.request(kind, email, now, policy.mails_per_hour)
    // The row is what counts: what finds no way into the queue now is found by the sweep.
    if (mail_id !== undefined) jobs.add(sendMail.at({ mail_id }, { key: `mail:${mail_id}` })).catch(() => {})
  }

export function emailLinks(http: EmailLinkNeeds): Handlers<typeof routes> {
  const {
    ask,
    storage,
    integrations: { hashing },
    policy,
    clock,
  } = http
  const requestMail = createMailRequests(http)

  const requestFor = async (kind: RequestedMail, email: string) => {
    if (!isEmailAddress(email))
      throw invalid([{ loc: ["body", "email"], msg: "must be an e-mail address", type: "value_error" }])
    await requestMail(kind, email)
    return success
  }

  /** Whose token it is. Its user's home decides what follows. */
  const presented = async (kind: MailKind, text: string) => {
    const token = readToken(kind, text)
    const kept = token && (await storage.oneTimeTokens.find(token.id))
    if (!kept || !openToken([kept], token, kind, secondsAt(clock()))) throw fail("invalid_token")
    return { user: kept.user_id, token }
  }

  return {
    requestPasswordReset: ({ body: { email } }) => requestFor("password_reset", email),

    async confirmPasswordReset({ body: { token: text, new_password } }) {
      const { user, token } = await presented("password_reset", text)
      requireStrong(new_password, policy)
      const password_hash = await hashing.hash(new_password)
      await ask(userActor, user, { type: "resetPassword", token, password_hash })
      return success
    },

    async verifyEmail({ body: { token: text } }) {
      const { user, token } = await presented("verify_email", text)
      await ask(userActor, user, { type: "verifyEmail", token })
      return success
    },

    async restoreEmail({ body: { token: text } }) {
      const { user, token } = await presented("restore_email", text)
      await ask(userActor, user, { type: "restoreEmail", token })
      return success
    },

    resendVerification: ({ body: { email } }) => requestFor("verify_email", email),
  }
}
