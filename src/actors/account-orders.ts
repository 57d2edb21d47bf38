import type { Ask } from "../runtime/actor.ts"
import { Failure } from "../contract/core/errors.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { loginKeyOf } from "../domain/accounts/failed-logins.ts"
import { erasedName } from "../domain/accounts/usernames.ts"
import { eachConcurrently } from "../std/each-concurrently.ts"
import type { Storage } from "../storage/storage.ts"
import { userActor } from "./user.ts"
import { suspended } from "./accounts/account-status.ts"

export interface AccountOrdersNeeds {
  readonly ask: Ask
  readonly storage: Pick<Storage, "sessions" | "bots">
}

/** Bots of one owner that are told at a time. */
const maxConcurrentAsks = 8
const never = new AbortController().signal

/**
 * What operators order about an account, for the program of operators and for their page alike. What
 * is answered is so on every worker: on the account's own tokens and on those of its bots, which share
 * its status. Each may be ordered again.
 */
export const accountOrders = ({ ask, storage }: AccountOrdersNeeds) => {
  async function tellBots(user: Snowflake, message: string | null): Promise<readonly { id: Snowflake }[]> {
    const bots = await storage.bots.ownedBy(user)
    const failures: unknown[] = []
    // One that fails keeps no other from being told.
    await eachConcurrently(bots, maxConcurrentAsks, never, async ({ id }) => {
      try {
        await ask(userActor, id, { type: "accountStatusChanged", message })
      } catch (error) {
        // It was deleted meanwhile.
        if (!(error instanceof Failure) || error.code !== "user_not_found") failures.push(error)
      }
    })
    if (failures.length > 0) throw failures[0]
    return bots
  }

  return {
    async lock(user: Snowflake, { until, reason }: { until: number; reason: string | null }) {
      const reply = await ask(userActor, user, { type: "lockAccount", until, reason })
      await tellBots(user, suspended)
      return reply
    },

    /** A lock after failed sign-ins ends as well. */
    async unlock(user: Snowflake) {
      const reply = await ask(userActor, user, { type: "unlockAccount" })
      await storage.sessions.clearFailures(loginKeyOf(user))
      await tellBots(user, null)
      return reply
    },

    async cancelDeletion(user: Snowflake) {
      const reply = await ask(userActor, user, { type: "cancelDeletion" })
      await tellBots(user, null)
      return reply
    },

    /** `ban`: nobody may take the present name again. */
    forceRename: (
      user: Snowflake,
      order: { reason: string | null; ban?: { operator_id: Snowflake | null } },
    ): Promise<{ username: string }> => ask(userActor, user, { type: "forceRename", ...order }),

    /** Ends the account for good, whatever it is. A job erases what is left. @returns false when nothing is */
    async purge(user: Snowflake): Promise<boolean> {
      const bots = await storage.bots.ownedBy(user)
      return beginPurge(ask, user, { isOwnerGone: false, forced: { bots: bots.map(({ id }) => id) } })
    },

    /** Makes every worker look again at what it knows of the user and of their bots. */
    async dropCaches(user: Snowflake): Promise<void> {
      await ask(userActor, user, { type: "accountStatusChanged", message: null })
      await tellBots(user, null)
    },
  }
}
export type AccountOrders = ReturnType<typeof accountOrders>

/**
 * Begins a purge, under a name that nobody has.
 * @returns whether there is something left to erase
 */
export async function beginPurge(
  ask: Ask,
  user: Snowflake,
  why: { isOwnerGone: boolean; forced?: { bots: readonly Snowflake[] } },
): Promise<boolean> {
  const begin = async (name: string) => (await ask(userActor, user, { type: "beginPurge", name, ...why })).begun
  try {
    return await begin(erasedName(user))
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== "user_exists") throw error
    // Somebody took the name before names of this form were kept free.
    return begin(erasedName(user, `_${Math.random().toString(36).slice(2, 8)}`))
  }
}
