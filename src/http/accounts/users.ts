import { userActor } from "../../actors/user.ts"
import { fail } from "../../contract/core/errors.ts"
import type { routes } from "../../contract/accounts/users.ts"
import { isEmailAddress, isOfDomain } from "../../domain/accounts/email-addresses.ts"
import { privateUser, publicUser, type UserRow } from "../../storage/accounts/users.ts"
import type { Handlers } from "../server/handlers.ts"
import { createMailRequests } from "./mailed.ts"
import { requireStrong } from "./password-rules.ts"
import { createSignIn, own } from "./sign-in.ts"
import { usernameRules } from "./username-rules.ts"
import type { Policy } from "../shared/http.ts"
import type { PasswordRules } from "../../domain/accounts/passwords.ts"
import type { MailNeeds } from "./mailed.ts"
import type { SignInNeeds } from "./sign-in.ts"
import type { RegistrationPolicy } from "./username-rules.ts"

type UsersNeeds = SignInNeeds & MailNeeds & Policy<RegistrationPolicy & PasswordRules>

export function users(http: UsersNeeds): Handlers<typeof routes> {
  const {
    ask,
    storage,
    policy,
    integrations: { hashing },
  } = http
  const signIn = createSignIn(http)
  const names = usernameRules(policy)
  const requestMail = createMailRequests(http)

  /**
   * Of a name that is written otherwise only in its letters' case the rules were asked when it was
   * chosen.
   */
  const requireName = (user: UserRow, username: string) => {
    const refusal = username.toLowerCase() === user.username.toLowerCase() ? undefined : names.refusal(username)
    if (refusal) throw fail(refusal)
  }

  const requireAddress = (email: string) => {
    if (!isEmailAddress(email)) throw fail("invalid_email")
    if (!isOfDomain(email, policy.email_allowed_domains)) throw fail("email_domain_not_allowed")
  }

  /** Does what the current password opens, with the hash of the new one. */
  async function withPassword<T>(
    user: UserRow,
    password: string,
    current: string | undefined,
    act: (hash: string, user: UserRow) => Promise<T>,
  ): Promise<T> {
    if (current === undefined) throw fail("missing_current_password")
    requireStrong(password, policy)
    return signIn.requirePassword(user, current, "incorrect_current_password", async known =>
      act(await hashing.hash(password), known),
    )
  }

  return {
    // Whatever changes an account renews what is known with its sessions. Workers of the version
    // before leave it out.
    async getMe({ caller: { user_id: id, username, bot, badges, account } }) {
      return privateUser(account ? { id, username, bot, badges, ...account } : await own(http, id))
    },

    async editMe({ body: { username, email, password, current_password }, caller }) {
      if (caller.bot && (email !== undefined || password !== undefined)) throw fail("people_only")
      const user = await own(http, caller.user_id)
      if (username !== undefined) requireName(user, username)
      if (email !== undefined && email !== user.email) requireAddress(email)
      const edit = (changed?: { hash: string; shown: string | null }) =>
        ask(userActor, caller.user_id, {
          type: "editAccount",
          username,
          email,
          password: changed,
          session_id: caller.session_id,
          verification: policy.email_verification_required,
        })
      const edited =
        password === undefined
          ? await edit()
          : await withPassword(user, password, current_password, (hash, { password_hash }) =>
              edit({ hash, shown: password_hash }),
            )
      if (edited.emailChanged && policy.email_verification_required) await requestMail("verify_email", email!)
      return edited.user
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
