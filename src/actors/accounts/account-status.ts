import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { securityLogout } from "../../contract/service/server-status.ts"
import { userOnly } from "../../domain/core/audience.ts"
import { secondsAt } from "../../std/clock.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import { banUsername } from "../../storage/accounts/banned-usernames.ts"
import { deleteSession, insertSession } from "../../storage/accounts/sessions.ts"
import { putUserNotes } from "../../storage/accounts/user-notes.ts"
import { needsTokens } from "./one-time-tokens.ts"
import { renewed } from "./session-renewal.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { renew, type ActorKind, type Publication } from "../../runtime/actor.ts"
import { becoming, disconnected, endedBefore, endedSessions, withoutSecondFactor } from "./sign-in.ts"

/**
 * What an operator decides about an account, among the commands of a user's home. Each may be said
 * again. It keeps:
 *   STAT1  A locked user is notified and disconnected on every connection, and their sessions end:
 *       they are accepted nowhere once the lock is answered, and none begins while it lasts. A bot
 *       keeps its token, which is refused meanwhile.
 *   STAT2  A bot has one token: a session under its own id. The one before is accepted nowhere once
 *       a new one is answered, neither by a worker that was just reading it (TOK4) nor by an IDENTIFY
 *       that has begun with it.
 */
export interface AccountStatusCommands {
  /** `until`: Unix seconds. `sessions`: how many the user had. */
  lockAccount(input: { until: number; reason: string | null }): { sessions: number }
  unlockAccount(input: object): { wasLocked: boolean }
  /** The user has to take another name before anything else. `ban`: nobody may take the present one. */
  forceRename(input: { reason: string | null; ban?: { operator_id: Snowflake | null } }): { username: string }
  /** What operators note about the user; it replaces what they noted before. */
  noteAbout(input: { notes: string; operator_id: Snowflake | null }): void
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
    turn({ state: user }, { until, reason }) {
      const locked = becoming(user, { locked_until: until, lock_reason: reason })
      const reply = { sessions: user.sessions.size }
      if (user.bot) return { ...locked, publish: cutOff(user, suspended), reply }
      const ended = endedSessions(user, [...user.sessions.keys()])
      return {
        apply: draft => {
          locked.apply(draft)
          ended.apply(draft)
        },
        write: [...locked.write, ...ended.write],
        publish: [...told(user, suspended), ...ended.publish, ...endedBefore],
        after: ended.after,
        reply,
      }
    },
  },

  unlockAccount: {
    turn: ({ state: user, now }) => ({
      ...becoming(user, { locked_until: 0, lock_reason: null }),
      reply: { wasLocked: user.locked_until > secondsAt(now) },
    }),
  },

  forceRename: {
    turn({ state: user, now }, { reason, ban }) {
      if (user.bot) throw fail("bot_rename")
      const forced = becoming(user, { must_rename: true, rename_reason: reason })
      const { username } = user
      const banned = { pattern: username, reason, created_by: ban?.operator_id ?? null, created_at: secondsAt(now) }
      return { ...forced, write: [...forced.write, ...(ban ? [banUsername(banned)] : [])], reply: { username } }
    },
  },

  noteAbout: {
    turn: ({ state: { id }, now }, { notes, operator_id }) => ({
      write: [putUserNotes({ user_id: id, notes, updated_at: secondsAt(now), updated_by: operator_id })],
      reply: undefined,
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
      const session = { id: bot.id, token_hash, created_at: at, expires_at: never }
      return {
        apply: draft => {
          draft.sessions.clear()
          draft.sessions.set(session.id, session)
        },
        write: [
          ...[...bot.sessions.keys()].map(id => deleteSession({ id })),
          insertSession({ ...session, user_id: bot.id, ip_address: "", user_agent: "", last_activity: at }),
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

/** The user's connections end and cannot be resumed; their sessions remain. */
const closed = (user: User): Publication[] => [...user.sessions.keys()].map(session => disconnected(user, session))

const told = (user: User, message: string): Publication[] =>
  user.sessions.size === 0 ? [] : [securityLogout.to(userOnly(user.id), { user_id: user.id, message })]

const cutOff = (user: User, message: string): Publication[] => [...told(user, message), ...closed(user)]
