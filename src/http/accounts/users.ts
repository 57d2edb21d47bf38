import { userActor } from "../../actors/user.ts"
import { fail } from "../../contract/core/errors.ts"
import type { routes } from "../../contract/accounts/users.ts"
import { isEmailAddress, isOfDomain } from "../../domain/accounts/email-addresses.ts"
import { ownUser, publicUser, type UserRow } from "../../storage/accounts/users.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Handlers } from "../server/handlers.ts"
import { createMailRequests } from "./email-links.ts"
import { createIdentityProof, type Shown } from "./identity-proof.ts"
import { requireStrong } from "./password-rules.ts"
import { createSignIn, own } from "./sign-in.ts"
import type { Policy } from "../shared/http.ts"
import type { PasswordRules } from "../../domain/accounts/passwords.ts"
import type { MailNeeds } from "./email-links.ts"
import type { SignInNeeds } from "./sign-in.ts"
import type { Names, RegistrationPolicy } from "./username-rules.ts"

type UsersNeeds = SignInNeeds & MailNeeds & Names & Policy<RegistrationPolicy & PasswordRules>

export function users(http: UsersNeeds): Handlers<typeof routes> {
  const {
    ask,
    storage,
    policy,
    clock,
    integrations: { hashing },
  } = http
  const signIn = createSignIn(http)
  const requestMail = createMailRequests(http)

  /**
   * Of a name that is written otherwise only in its letters' case the rules were asked when it was
   * chosen.
   */
  const requireName = async (user: UserRow, username: string) => {
    if (username.toLowerCase() === user.username.toLowerCase()) return
    const refusal = (await http.usernames()).refusal(username)
    if (refusal) throw refusal
  }

  const requireAddress = (email: string) => {
    if (!isEmailAddress(email)) throw fail("invalid_email")
    if (!isOfDomain(email, policy.email_allowed_domains)) throw fail("email_domain_not_allowed")
  }

  /** Whose address it is only a caller hears who has proved their identity. */
  const requireFree = async (email: string, user: UserRow) => {
    if (await storage.users.isAddressTaken(email, user.id, secondsAt(clock()))) throw fail("user_exists")
  }

  const requireIdentity = createIdentityProof(http, {
    missing: "missing_current_password",
    wrong: "incorrect_current_password",
  })

  return {
    // Whatever changes an account renews what is known with its sessions.
    getMe: ({ caller: { user_id, username, bot, badges, account } }) =>
      ownUser({ id: user_id, username, bot, badges }, account),

    async editMe({ body: { username, email, password, current_password, code }, caller }) {
      if (caller.bot && (email !== undefined || password !== undefined)) throw fail("people_only")
      const user = await own(http, caller.user_id)
      if (username !== undefined) await requireName(user, username)
      const isMoving = email !== undefined && email !== user.email
      if (isMoving) requireAddress(email)
      if (password !== undefined) {
        if (current_password === undefined) throw fail("missing_current_password")
        requireStrong(password, policy)
      }
      const edit = async (shown?: Shown) => {
        // An account that has no password gets its first one by mail.
        if (password !== undefined && (shown?.proof.password_hash ?? null) === null)
          throw fail("incorrect_current_password")
        return ask(userActor, caller.user_id, {
          type: "editAccount",
          username,
          email,
          password_hash: password === undefined ? undefined : await hashing.hash(password),
          shown,
          session_id: caller.session_id,
          verification: policy.email_verification_required,
        })
      }
      const moved = async () => {
        let edited: Awaited<ReturnType<typeof edit>>
        await requireIdentity(caller, { password: current_password, code }, async shown => {
          await requireFree(email!, user)
          edited = await edit(shown)
          return edited.isProven
        })
        return edited!
      }
      // A new password alone needs the current one, and no second factor.
      const unmoved = () =>
        password === undefined
          ? edit()
          : signIn.requirePassword(user, current_password!, "incorrect_current_password", ({ password_hash }) =>
              edit({ proof: { password_hash }, factor: null }),
            )
      const { user: after, emailChanged } = await (isMoving ? moved() : unmoved())
      if (emailChanged && policy.email_verification_required) await requestMail("verify_email", email!)
      return after
    },

    async findUser({ query: { username = "" } }) {
      if (username === "") throw fail("username_required")
      const user = await storage.users.findByName(username)
      if (!user) throw fail("user_not_found")
      return publicUser(user)
    },

    async getUser({ params }) {
      const user = await storage.users.find(params.user_id)
      if (!user) throw fail("user_not_found")
      return publicUser(user)
    },
  }
}
