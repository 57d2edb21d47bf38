import { userActor } from "../../actors/user.ts"
import type { routes } from "../../contract/accounts/auth.ts"
import { fail } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import { ageRefusal, dayOf } from "../../domain/accounts/birth-dates.ts"
import { secondsAt } from "../../std/clock.ts"
import { isEmailAddress, isOfDomain } from "../../domain/accounts/email-addresses.ts"
import type { Handlers } from "../server/handlers.ts"
import { createMailRequests } from "./email-links.ts"
import { newcomer } from "./newcomers.ts"
import { requireStrong } from "./password-rules.ts"
import { createSignIn, own, sessionEnd, sessionsOf, signedIn } from "./sign-in.ts"
import type { Creates, Policy } from "../shared/http.ts"
import type { Tokens } from "../../cluster/tokens.ts"
import type { AgeGate } from "../../domain/accounts/birth-dates.ts"
import type { PasswordRules } from "../../domain/accounts/passwords.ts"
import type { MailNeeds } from "./email-links.ts"
import type { NewcomerPolicy } from "./newcomers.ts"
import type { SignInNeeds } from "./sign-in.ts"
import type { Names, RegistrationPolicy } from "./username-rules.ts"
import type { ServiceFacts } from "../service/system.ts"

type AuthNeeds = SignInNeeds &
  Names &
  MailNeeds &
  Creates &
  Policy<
    RegistrationPolicy & AgeGate & PasswordRules & NewcomerPolicy & { readonly password_login_enabled: boolean }
  > & {
    readonly tokens: Pick<Tokens, "invalidate">
    readonly service: Pick<ServiceFacts, "hasDocs">
  }

export function auth(http: AuthNeeds): Handlers<typeof routes> {
  const {
    ask,
    create,
    storage,
    integrations: { hashing },
    policy,
    clock,
  } = http
  const seconds = () => secondsAt(clock())
  const signIn = createSignIn(http)
  const requestMail = createMailRequests(http)
  /** Where only providers sign people in, a right password is told nothing else than a wrong one. */
  const requirePasswords = () => {
    if (!policy.password_login_enabled) throw fail("password_login_disabled")
  }

  return {
    async register(call) {
      requirePasswords()
      const { username, email, password, ...age } = call.body
      const wrongName = (await http.usernames()).refusal(username)
      if (wrongName) throw wrongName
      if (!isEmailAddress(email)) throw fail("invalid_email")
      if (!isOfDomain(email, policy.email_allowed_domains)) throw fail("email_domain_not_allowed")
      requireStrong(password, policy)
      const refusal = ageRefusal(age, policy, dayOf(clock()))
      if (refusal) throw fail(refusal)
      hashing.requireCapacity()
      // Spares the hash; what decides is the database's unique index.
      if (await storage.users.exists(username, email, seconds())) throw fail("user_exists")

      const { secret, session } = signIn.newSession(call)
      const account = newcomer(http, {
        username,
        email,
        password_hash: await hashing.hash(password),
        email_verified: !policy.email_verification_required,
      })
      const made = await create(userActor, {
        type: "register",
        user: account,
        session: policy.email_verification_required ? null : session,
      })
      if (made.session_id === null) {
        await requestMail("verify_email", email)
        // The account is there; signing in fails, as it will until the mail is answered.
        throw fail("registered_unverified")
      }
      return signedIn(made.user, `${made.session_id}.${secret}`)
    },

    async login(call) {
      requirePasswords()
      return signIn.withPassword((call.body.username ?? call.body.email)!, call.body.password, call)
    },

    async refresh({ caller: { user_id, session_id }, token }) {
      const { expires_at } = await ask(userActor, user_id, {
        type: "touchSession",
        session_id,
        expires_at: sessionEnd(http),
      })
      if (expires_at === 0) throw fail("revoked_token")
      await http.tokens.invalidate([session_id])
      return signedIn(await own(http, user_id), token)
    },

    async logout({ caller: { user_id, session_id } }) {
      await ask(userActor, user_id, { type: "endSession", session_id })
      return success
    },

    listSessions: async ({ caller }) =>
      (await sessionsOf(http, caller.user_id)).map(session => ({
        ...session,
        current: session.id === caller.session_id,
      })),

    async revokeSession({ caller, params }) {
      const { ended } = await ask(userActor, caller.user_id, { type: "endSession", session_id: params.session_id })
      if (!ended) throw fail("session_not_found")
      return success
    },

    async revokeAllSessions({ caller, body }) {
      const { ended } = await ask(userActor, caller.user_id, {
        type: "endAllSessions",
        message: null,
        ...(body.except_current !== false && { except: caller.session_id }),
      })
      return { success: true, revoked_count: ended }
    },

    getPasswordRequirements: () => ({
      min_length: policy.password_min_length,
      max_length: policy.password_max_length,
      require_uppercase: policy.password_require_uppercase,
      require_lowercase: policy.password_require_lowercase,
      require_digit: policy.password_require_digit,
      require_special: policy.password_require_special,
      age_gate_enabled: policy.age_gate_enabled,
      age_verification_type: policy.age_verification_type,
      minimum_age: policy.minimum_age,
      docs_enabled: http.service.hasDocs,
    }),
  }
}
