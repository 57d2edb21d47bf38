import { userActor } from "../../actors/user.ts"
import type { routes } from "../../contract/accounts/account-deletion.ts"
import { fail } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import type { Handlers } from "../server/handlers.ts"
import { createIdentityProof } from "./identity-proof.ts"
import { createRefusal } from "./server-slots.ts"
import type { Http, Policy } from "../shared/http.ts"
import type { SignInNeeds } from "./sign-in.ts"

export function accountDeletion(
  http: Http<"accountDeletion"> & SignInNeeds & Policy<{ readonly account_deletion_days: number }>,
): Handlers<typeof routes> {
  const { ask, storage, policy } = http
  const requireIdentity = createIdentityProof(http)
  const withoutServerSlots = createRefusal(http)

  return {
    async deleteAccount({ body, caller }) {
      const { user_id } = caller
      await requireIdentity(caller, body, async shown => {
        const { frozen } = await withoutServerSlots(user_id, async () => {
          // Before the code is used up. A server that a bot of theirs creates at this moment is
          // deleted with the account.
          if (await storage.accountDeletion.isOwner(user_id)) throw fail("owns_servers")
          const bots = await storage.accountDeletion.botsOf(user_id)
          const days = policy.account_deletion_days
          return ask(userActor, user_id, { type: "freezeAccount", ...shown, days, bots })
        })
        return frozen
      })
      return success
    },
  }
}
