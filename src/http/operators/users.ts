import { accountOrders } from "../../actors/account-orders.ts"
import { userActor } from "../../actors/user.ts"
import { fail, unavailable } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import type { routes, UserDetail, UserRow } from "../../contract/operators/users.ts"
import { tierAt } from "../../domain/accounts/accounts.ts"
import { isId } from "../../domain/core/snowflake.ts"
import { lockOf, scheduledDeletion } from "../../domain/operators/known-accounts.ts"
import { secondsAt } from "../../std/clock.ts"
import type { KnownAccount, ListedAccount } from "../../storage/operators/user-directory.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"

/** Of one answer. */
const maxScheduled = 1_000
const usualReason = "Forced change by admin"

const rowOf = (account: ListedAccount, now: number): UserRow => ({
  id: account.id,
  username: account.username,
  email: account.has_email ? "[Encrypted]" : null,
  tier: tierAt(account, now),
  badges: [...account.badges],
  created_at: account.created_at,
  deletion_status: account.deletion_status,
  deletion_at: account.deletion_at,
  bot: account.bot,
  account_locked: account.locked_until > now,
})

const detailOf = (account: KnownAccount, now: number): UserDetail => ({
  ...rowOf(account, now),
  ...lockOf(account, now),
  last_login: account.last_login,
  lock_reason: account.locked_until > now ? account.lock_reason : null,
  force_username_change: account.must_rename,
  rename_reason: account.rename_reason,
  totp_enabled: account.totp_enabled,
  permissions: [...account.permissions],
  owner_id: account.owner_id,
  session_count: account.sessions,
  owned_server_count: account.owned_servers,
  bot_count: account.bots,
})

/** Accounts as operators find, note about and end them. */
export const operatorUsers = (
  http: Http<"userDirectory" | "userNotes" | "sessions" | "bots" | "bannedUsernames">,
): Handlers<typeof routes> => {
  const { ask, storage, clock } = http
  const orders = accountOrders(http)
  const now = () => secondsAt(clock())

  const cancelDeletion: Handlers<typeof routes>["cancelDeletion"] = async ({ params, trail }) => {
    const { cancelled } = await orders.cancelDeletion(params.user_id)
    trail.result = { cancelled }
    return success
  }
  const delayDeletion: Handlers<typeof routes>["delayDeletion"] = async ({ params, query }) => {
    await ask(userActor, params.user_id, { type: "delayDeletion", ...query })
    return success
  }

  return {
    async findAccounts({ query: { q, limit, offset } }) {
      if (!/^\d+$/.test(q)) {
        const found = await storage.userDirectory.search(q, { limit, offset })
        return { users: found.map(account => rowOf(account, now())) }
      }
      const found = isId(q) && offset === 0 ? await storage.userDirectory.find(q) : undefined
      return { users: found ? [rowOf(found, now())] : [] }
    },

    async listScheduledDeletions() {
      const scheduled = await storage.userDirectory.scheduled(maxScheduled)
      return { deletions: scheduled.map(account => scheduledDeletion(account, now())) }
    },

    async getUserDetail({ params }) {
      const found = await storage.userDirectory.find(params.user_id)
      if (!found) throw fail("user_not_found")
      return detailOf(found, now())
    },

    async getUserNotes({ params: { user_id } }) {
      const notes = await storage.userNotes.of(user_id)
      if (notes === undefined) throw fail("user_not_found")
      return { user_id, notes }
    },

    async setUserNotes({ params, body: { notes }, operator }) {
      await ask(userActor, params.user_id, { type: "noteAbout", notes, operator_id: operator.id })
      return success
    },

    async forceUsernameChange({ params, body: { ban_current: isBanned = false, reason }, operator }) {
      if (isBanned && (await storage.bannedUsernames.isFull())) throw fail("banned_username_limit")
      await orders.forceRename(params.user_id, {
        reason: reason || usualReason,
        ...(isBanned && { ban: { operator_id: operator.id } }),
      })
      return success
    },

    cancelDeletion,
    cancelDeletionByPatch: cancelDeletion,
    delayDeletion,
    delayDeletionByPatch: delayDeletion,

    async forcePurge({ params, trail }) {
      const found = await storage.userDirectory.find(params.user_id)
      if (!found) throw fail("user_not_found")
      const { owned_servers, bots, sessions } = found
      trail.result = { owned_servers, bots, sessions }
      const begun = await orders.purge(params.user_id)
      // A worker of the version before does not purge what is not due.
      if (!begun && found.deletion_status !== "purged") throw unavailable("the account's worker is of an older version")
      return success
    },
  }
}
