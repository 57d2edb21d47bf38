import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { purgeAccount } from "../../contract/core/jobs.ts"
import { securityLogout } from "../../contract/service/server-status.ts"
import { newAccount } from "../../domain/accounts/accounts.ts"
import { userOnly } from "../../domain/core/audience.ts"
import { secondsAt } from "../../std/clock.ts"
import { loginKeyOf, loginKeyOfName } from "../../domain/accounts/failed-logins.ts"
import { defaultPresence } from "../../domain/core/presences.ts"
import type { OneTimeToken } from "../../domain/accounts/one-time-tokens.ts"
import { accepted, type SecondFactor } from "../../domain/accounts/second-factors.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import { eraseAccount, eraseFailedLogins } from "../../storage/account-deletion.ts"
import { deleteAvatar } from "../../storage/accounts/avatars.ts"
import { forgetLastLogin } from "../../storage/accounts/users.ts"
import { userAvatar, withoutAvatar } from "./avatars.ts"
import { isWayBack } from "./email-restoration.ts"
import { needsTokens, voidTokens } from "./one-time-tokens.ts"
import { becoming, endedSessions, type Proof } from "./sign-in.ts"
import type { AccountStatusCommands } from "./account-status.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { tellsOf } from "../shared/tells.ts"

/**
 * The end of an account, among the commands of a user's home. It is active, then frozen, then
 * purged. They keep:
 *   DEL1  After the freeze no session is valid and no sign-in works. An operator can cancel the
 *       deletion until the purge.
 *   DEL2  A purge is final: the turn that records it forgets the user. `deletion_at` becomes
 *       null only when everything else is deleted, so that unfinished purges are found.
 */
export interface AccountDeletionCommands {
  /**
   * The account is purged `days` from now. `bots` are the user's own: they are refused like the
   * user. False: the code was wrong.
   */
  freezeAccount(input: { proof: Proof; factor: SecondFactor; days: number; bots: readonly Snowflake[] }): {
    frozen: boolean
  }
  /**
   * False: the account is not frozen. The user signs in again. Their bots still have their tokens,
   * so the caller notifies them.
   */
  cancelDeletion(input: object): { cancelled: boolean }
  /** Moves the purge of a frozen account. `deletion_at`: Unix seconds. */
  delayDeletion(input: { deletion_at: number }): void
  /**
   * True: there is something left to erase, and nothing can keep it. `isOwnerGone`: a bot goes with
   * its owner. `forced`: an operator does not wait for the account's time, nor for the user; of the
   * user's bots, which are refused from now on, the turn tells these.
   */
  beginPurge(input: { name: string; isOwnerGone: boolean; forced?: { bots: readonly Snowflake[] } }): {
    begun: boolean
  }
  /** Something is left of an account whose purge has ended: it goes on. */
  reopenPurge(input: object): { reopened: boolean }
  /** Comes after everything of the user that other homes decide about. */
  endPurge(input: object): { ended: boolean }
}

type User = Readonlied<UserState>

/** Ten years: a later time is a mistake. */
const latestSeconds = 3_653 * 86_400

const day = 86_400

export const accountDeletionCommands: ActorKind<UserState, UserState, AccountDeletionCommands>["commands"] = {
  freezeAccount: {
    needs: needsTokens,
    turn({ state: user, now }, { proof, factor, days, bots }) {
      if (user.bot) throw fail("people_only")
      if (user.deletion_status !== "active") throw fail("account_deleted")
      if (proof.password_hash !== user.password_hash) throw fail("wrong_password")
      const used = user.totp_enabled ? accepted(user, factor) : {}
      if (!used) return { reply: { frozen: false } }

      const deletion_at = secondsAt(now) + days * day
      const frozen = becoming(user, { ...used, deletion_status: "frozen", deletion_at })
      // A way back is open again if the deletion is cancelled (ACC5).
      const out = signedOut(user, token => !isWayBack(token))
      return {
        apply: draft => {
          frozen.apply(draft)
          out.apply(draft)
        },
        write: [...frozen.write, ...out.write],
        publish: [
          ...out.publish,
          ...bots.map(bot => accountStatusChangedOf(bot, "Account scheduled for deletion")),
          purgeAt(user.id, deletion_at),
        ],
        after: out.after,
        reply: { frozen: true },
      }
    },
  },

  cancelDeletion: {
    turn({ state: user }) {
      if (user.deletion_status === "purged") throw fail("not_scheduled_for_deletion")
      if (user.deletion_status !== "frozen") return { reply: { cancelled: false } }
      return { ...becoming(user, { deletion_status: "active", deletion_at: null }), reply: { cancelled: true } }
    },
  },

  delayDeletion: {
    turn({ state: user, now }, { deletion_at }) {
      if (user.deletion_status !== "frozen") throw fail("not_scheduled_for_deletion")
      if (deletion_at <= secondsAt(now)) throw fail("deletion_in_the_past")
      if (deletion_at > secondsAt(now) + latestSeconds)
        throw fail("deletion_in_the_past", { message: "deletion_at must be at most 10 years ahead" })
      return { ...becoming(user, { deletion_at }), publish: [purgeAt(user.id, deletion_at)], reply: undefined }
    },
  },

  beginPurge: {
    needs: () => [...needsTokens(), userAvatar],
    turn({ state: user, now }, { name, isOwnerGone, forced }) {
      if (user.deletion_status === "purged") return { reply: { begun: user.deletion_at === null } }
      const isDue = user.deletion_status === "frozen" && user.deletion_at! <= secondsAt(now)
      if (!isDue && !forced && !(user.bot && isOwnerGone)) return { reply: { begun: false } }

      const { created_at, bot } = user
      const nobody = { username: name, email: null, password_hash: null, created_at, bot, email_verified: false }
      const erased = becoming(user, newAccount({ ...nobody, deletion_status: "purged" })) // DEL2
      const out = signedOut(user)
      const pictured = withoutAvatar(user, now)
      const told = securityLogout.to(userOnly(user.id), { user_id: user.id, message: deleted })
      const names = user.email === null ? [user.username] : [user.username, user.email]
      const counted = [loginKeyOf(user.id), ...names.map(loginKeyOfName)]
      return {
        apply: draft => {
          erased.apply(draft)
          out.apply(draft)
          pictured.apply(draft)
        },
        write: [
          ...erased.write,
          forgetLastLogin({ user_id: user.id }),
          ...out.write,
          deleteAvatar({ user_id: user.id }),
          ...pictured.write,
          ...counted.map(name => eraseFailedLogins({ name })),
        ],
        publish: [
          told,
          ...out.publish,
          ...pictured.publish,
          ...(forced
            ? [...forced.bots.map(bot => accountStatusChangedOf(bot, deleted)), purgeAt(user.id, secondsAt(now))]
            : []),
        ],
        after: out.after,
        reply: { begun: true },
      }
    },
  },

  reopenPurge: {
    turn({ state: user }) {
      if (user.deletion_status !== "purged" || user.deletion_at === null) return { reply: { reopened: false } }
      return { ...becoming(user, { deletion_at: null }), reply: { reopened: true } } // DEL2
    },
  },

  endPurge: {
    turn({ state: user, now }) {
      if (user.deletion_status !== "purged" || user.deletion_at !== null) return { reply: { ended: false } }
      const done = becoming(user, { deletion_at: secondsAt(now) })
      return {
        apply: draft => {
          done.apply(draft)
          draft.presence = defaultPresence
          draft.call = null
          // What memory holds of the user's rows goes with them.
          for (const known of Object.values(draft)) if (known instanceof Map) known.clear()
        },
        write: [...done.write, eraseAccount({ user_id: user.id })],
        reply: { ended: true },
      }
    },
  },
}

const tellUser = tellsOf<AccountStatusCommands>("user")
const accountStatusChangedOf = (bot: Snowflake, message: string) =>
  tellUser(bot, { type: "accountStatusChanged", message })

const deleted = "Account deleted"

/** `at`: Unix seconds. A purge that was moved is found not to be due by the job of before. */
const purgeAt = (user: Snowflake, at: number) =>
  purgeAccount.at({ user_id: user }, { key: `purge-account:${user}:${at}`, runAtMs: at * 1000 })

/** DEL1: no session is left, and no token that could make one. */
function signedOut(user: User, isVoid?: (token: OneTimeToken) => boolean) {
  const sessions = endedSessions(user, [...user.sessions.keys()])
  const tokens = voidTokens(user, isVoid)
  return {
    apply: (draft: UserState) => {
      sessions.apply(draft)
      tokens.apply(draft)
    },
    write: [...sessions.write, ...tokens.write],
    publish: sessions.publish,
    after: sessions.after,
  }
}
