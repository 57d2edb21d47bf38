import { fail } from "../contract/errors.ts"
import type { routes } from "../contract/users.ts"
import { privateUser, publicUser } from "../storage/users.ts"
import type { Handlers, Http } from "./handlers.ts"

export const users = ({ storage }: Http): Handlers<typeof routes> => ({
  async getMe({ caller }) {
    const user = await storage.users.find(caller.user_id)
    // The account went away while its session was still cached.
    if (!user) throw fail("revoked_token")
    return privateUser(user)
  },

  async getUser({ params }) {
    const user = await storage.users.find(params.user_id)
    if (!user) throw fail("user_not_found")
    return publicUser(user)
  },
})
