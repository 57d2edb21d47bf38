import { fail } from "../../contract/core/errors.ts"
import { securityLogout } from "../../contract/service/server-status.ts"
import { userOnly } from "../../domain/core/audience.ts"
import { secondsAt } from "../../std/clock.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import { deleteSession, insertSession } from "../../storage/accounts/sessions.ts"
import { needsTokens } from "./one-time-tokens.ts"
import { renewed } from "./session-renewal.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { renew, type ActorKind, type Publication } from "../../runtime/actor.ts"
import { becoming, disconnected, withoutSecondFactor } from "./sign-in.ts"

/**
 * What an operator decides about an account, among the commands of a user's home. Each may be said
 * again. It keeps:
 *   STAT1  A locked user is notified and disconnected on every connection. Their sessions stay
 *       for later.
 *   STAT2  A bot has one token: a session under its own id. The one before is accepted nowhere once
 *          a new one is answered, except
 *       where a worker was just reading it: `accountStatusChanged` after a moment settles that.
 */
export interface AccountStatusCommands {
  /** `until`: Unix seconds. */
  lockAccount(input: { until: number; reason: string | null }): { sessions: number }
  unlockAccount(input: object): { wasLocked: boolean }
  /** The user has to take another name before anything else. */
  forceRename(input: { reason: string | null }): { username: string }
  /** Of the whole service. */
  setPermission(input: { permission: string; isGranted: boolean }): { permissions: readonly string[] }
  issueBotToken(input: { token_hash: string }): { username: string }
  /**
   * Of somebody who has lost it; one that waits to be confirmed goes, too. `codes`: backup codes
   * that are void now.
   */
  dropSecondFactor(input: object): { wasOn: boolean; codes: number }
  /**
   * Clears what gateway and HTTP have cached of the account, because it, or the owner of this bot,
   * has changed. With a `message` its sessions receive it and are disconnected.
   */
  accountStatusChanged(input: { message: string | null }): { sessions: number }
}

export const suspended = "Account suspended"
/** Further away than the end of any person's session: it is neither extended nor swept. */
const never = 9_999_999_999

type User = Readonlied<UserState>

export const accountStatusCommands: ActorKind<UserState, UserState, AccountStatusCommands>["commands"] = {
  lockAccount: {
    turn: ({ state: user }, { until, reason }) => ({
      ...becoming(user, { locked_until: until, lock_reason: reason }),
      publish: cutOff(user, suspended),
      reply: { sessions: user.sessions.size },
    }),
  },

  unlockAccount: {
    turn: ({ state: user, now }) => ({
      ...becoming(user, { locked_until: 0, lock_reason: null }),
      reply: { wasLocked: user.locked_until > secondsAt(now) },
    }),
  },

  forceRename: {
    turn: ({ state: user }, { reason }) => ({
      ...becoming(user, { must_rename: true, rename_reason: reason }),
      reply: { username: user.username },
    }),
  },

  setPermission: {
    turn({ state: user }, { permission, isGranted }) {
      const others = user.permissions.filter(each => each !== permission)
      const permissions = isGranted ? [...others, permission] : others
      return { ...becoming(user, { permissions }), reply: { permissions } }
    },
  },

  issueBotToken: {
    turn({ state: bot, now }, { token_hash }) {
      if (!bot.bot || bot.deletion_status !== "active") throw fail("user_not_found")
      const reply = { username: bot.username }
      if (bot.sessions.get(bot.id)?.token_hash === token_hash) return { reply }
      const at = secondsAt(now)
      const session = { id: bot.id, token_hash, created_at: at, expires_at: never, last_activity: at }
      return {
        apply: draft => {
          draft.sessions.clear()
          draft.sessions.set(session.id, session)
        },
        write: [
          ...[...bot.sessions.keys()].map(id => deleteSession({ id })),
          insertSession({ ...session, user_id: bot.id, ip_address: "", user_agent: "" }),
        ],
        publish: [...closed(bot), renew(bot.id)], // STAT2
        reply,
      }
    },
  },

  dropSecondFactor: {
    needs: needsTokens,
    turn({ state: user }) {
      const reply = { wasOn: user.totp_enabled, codes: user.backup_codes.length }
      if (!user.totp_enabled && user.totp_secret === null && reply.codes === 0) return { reply }
      return { ...withoutSecondFactor(user), reply }
    },
  },

  accountStatusChanged: {
    turn: ({ state: user }, { message }) => ({
      publish: [...(message === null ? [] : cutOff(user, message)), ...renewed(user)],
      reply: { sessions: user.sessions.size },
    }),
  },
}

/** STAT1: the user's connections end and cannot be resumed; their sessions remain. */
const closed = (user: User): Publication[] => [...user.sessions.keys()].map(session => disconnected(user, session))

const cutOff = (user: User, message: string): Publication[] =>
  user.sessions.size === 0 ? [] : [securityLogout.to(userOnly(user.id), { user_id: user.id, message }), ...closed(user)]
