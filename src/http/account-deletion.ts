import { userActor } from "../actors/user.ts"
import type { routes } from "../contract/account-deletion.ts"
import { fail } from "../contract/errors.ts"
import { success } from "../contract/fields.ts"
import { msOf } from "../domain/snowflake.ts"
import type { UserRow } from "../storage/users.ts"
import type { Handlers, Http } from "./handlers.ts"
import { createSignIn, own } from "./sign-in.ts"

/** Whoever has no password shows with a session no older than this, in milliseconds, that it is he. */
const freshFor = 600_000

export function accountDeletion(http: Http): Handlers<typeof routes> {
  const { ask, storage, policy, clock } = http
  const signIn = createSignIn(http)

  return {
    async deleteAccount({ body: { password, code }, caller: { user_id, session_id } }) {
      const user = await own(http, user_id)
      const freeze = async (known: UserRow) => {
        if (known.totp_enabled && code === undefined) throw fail("second_factor_code_required")
        // Looked at before the code is used up. One that is made at this very moment goes with the account.
        if (await storage.accountDeletion.isOwner(user_id)) throw fail("owns_servers")
        const bots = await storage.accountDeletion.botsOf(user_id)
        const factor = known.totp_enabled ? signIn.factorOf(known, code!) : null
        const proof = { password_hash: known.password_hash }
        const days = policy.account_deletion_days
        const attempt = () => ask(userActor, user_id, { type: "freezeAccount", proof, factor, days, bots })
        return known.totp_enabled ? signIn.tryCode(known, attempt, verdict => !verdict.frozen) : attempt()
      }

      const prove = () => {
        if (user.password_hash === null) {
          if (clock() - msOf(session_id) > freshFor) throw fail("fresh_sign_in_required")
          return freeze(user)
        }
        if (password === undefined) throw fail("password_required")
        return signIn.requirePassword(user, password, "wrong_password", freeze)
      }
      const { frozen } = await prove()
      if (!frozen) throw fail("wrong_code")
      return success
    },
  }
}
