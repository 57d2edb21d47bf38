import { fail, type ErrorCode } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { expireSession } from "../../contract/core/jobs.ts"
import { securityLogout } from "../../contract/service/server-status.ts"
import { barToSignIn, type Account } from "../../domain/accounts/accounts.ts"
import { userOnly } from "../../domain/core/audience.ts"
import { secondsAt } from "../../std/clock.ts"
import { sameHash } from "../../domain/core/hashes.ts"
import { openToken, type OneTimeToken } from "../../domain/accounts/one-time-tokens.ts"
import { accepted, type SecondFactor } from "../../domain/accounts/second-factors.ts"
import { compareIds } from "../../domain/core/snowflake.ts"
import type { SessionState, UserState } from "../../domain/accounts/user-state.ts"
import { deleteSession, insertSession, touchSession } from "../../storage/accounts/sessions.ts"
import { accountOf, updateUser } from "../../storage/accounts/users.ts"
import { signedOutEverywhere } from "../shared/presence-changed.ts"
import { needsPasskeys, passkeysOf } from "./passkey-facts.ts"
import { countWrongCode, issueToken, needsTokens, tokensOf, voidTokens } from "./one-time-tokens.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { control, revoke, type ActorKind, type Publication } from "../../runtime/actor.ts"

/**
 * Sessions and second factors, among the commands of a user's home. They keep:
 *   SESS1  A user has at most `sessionsPerUser` sessions; a new one ends the one that was idle
 *       longest.
 *   SESS2  An ended session is accepted nowhere once the command that ended it is answered.
 *   SESS3  A sign-in with a password that was changed or is no longer sufficient gets no
 *       session.
 *   SESS4  A code is used once, for one purpose: of two concurrent uses one is refused.
 */
export interface SignInCommands {
  /** A session, or the token of a challenge where a second factor is asked for. */
  startSession(input: {
    session: NewSession
    challenge: NewToken & Pick<OneTimeToken, "groups">
    proof: Proof
  }):
    | { session_id: Snowflake; challenge_id: null }
    | { session_id: null; challenge_id: Snowflake; hasPasskeys: boolean }
  /** Answers with the result instead of a refusal, so that a wrong code is recorded. */
  answerChallenge(input: {
    token: { id: Snowflake; token_hash: string }
    factor: SecondFactor
    session: NewSession
  }): { outcome: "used" } | { outcome: "wrong" } | { outcome: "right"; session_id: Snowflake }
  /** A secret and backup codes that wait to be confirmed. They replace earlier ones. */
  prepareSecondFactor(input: { secret: string; backup_codes: readonly string[]; proof: Proof }): void
  confirmSecondFactor(input: { secret: string; step: number }): void
  /** Whether the code was right. */
  disableSecondFactor(input: { factor: SecondFactor; proof: Proof }): { right: boolean }
  /**
   * Whether a signed-in user has proved their identity once more; a code that proves it is used up.
   */
  confirmIdentity(input: { proof: Proof; factor: SecondFactor }): { confirmed: boolean }
  /** Replaces the hash by one of the same password with the present parameters. */
  renewHash(input: { former: string; password_hash: string }): void
  /** Idempotent: ending what has ended is a success. */
  endSession(input: { session_id: Snowflake }): { ended: boolean }
  /**
   * Ends all of the user's sessions, or those up to an id, or all but one. The operator's `message`
   * goes to the connections that this closes; null: they have been told.
   */
  endAllSessions(input: { message: string | null; until?: Snowflake; except?: Snowflake }): { ended: number }
  /** Ends the session if its time is over; says when to look again if it was extended. */
  expireSession(input: { session_id: Snowflake }): { ended: boolean }
  /** Moves the session's expiry. A use that moves nothing is no command: see session-uses.ts. */
  touchSession(input: { session_id: Snowflake; expires_at: number }): { expires_at: number }
}

export interface NewSession {
  token_hash: string
  ip_address: string
  user_agent: string
  expires_at: number
  sessionsPerUser: number
  /** When the user's other sessions were last used, in Unix seconds. Of those that are missing it is when they began. */
  lastUses?: Readonly<Record<Snowflake, number>>
}
export interface NewToken {
  token_hash: string
  expires_at: number
}
/** The hash of the password that the user entered; null: they proved their identity otherwise. */
export interface Proof {
  password_hash: string | null
}

type User = Readonlied<UserState>

export const signInCommands: ActorKind<UserState, UserState, SignInCommands>["commands"] = {
  startSession: {
    // Only the turn knows whether a second factor is required.
    needs: () => [...needsTokens(), ...needsPasskeys()],
    turn({ state: user, now, newId }, { session, challenge, proof }) {
      requireOpen(user, now)
      requireProof(user, proof)
      if (!user.totp_enabled) {
        const started = startedSession(user, newId(), session, now)
        return { ...started.effects, reply: { session_id: started.id, challenge_id: null } }
      }
      const id = newId()
      const issued = issueToken(user, { id, kind: "two_factor", ...challenge }, secondsAt(now))
      return { ...issued, reply: { session_id: null, challenge_id: id, hasPasskeys: passkeysOf(user).length > 0 } }
    },
  },

  answerChallenge: {
    needs: needsTokens,
    turn({ state: user, now, newId }, { token, factor, session }) {
      const open = openToken(tokensOf(user), token, "two_factor", secondsAt(now))
      if (!open) return { reply: { outcome: "used" } }
      requireOpen(user, now)
      const changes = accepted(user, factor)
      if (!changes) return { ...countWrongCode(user, open), reply: { outcome: "wrong" } }
      const used = voidTokens(user, ({ id }) => id === open.id)
      const started = startedSession(user, newId(), session, now)
      return {
        apply: draft => {
          used.apply(draft)
          Object.assign(draft, changes)
          started.effects.apply(draft)
        },
        write: [...used.write, changed(user, changes), ...started.effects.write],
        publish: started.effects.publish,
        reply: { outcome: "right", session_id: started.id },
      }
    },
  },

  prepareSecondFactor: {
    turn({ state: user }, { secret, backup_codes, proof }) {
      requireProof(user, proof, "invalid_password")
      if (user.totp_enabled) throw fail("second_factor_enabled")
      return { ...becoming(user, { totp_secret: secret, totp_step: 0, backup_codes }), reply: undefined }
    },
  },

  confirmSecondFactor: {
    turn({ state: user }, { secret, step }) {
      // A second factor that is on was confirmed: no setup waits.
      if (user.totp_enabled || user.totp_secret !== secret) throw fail("second_factor_not_started")
      return { ...becoming(user, { totp_enabled: true, totp_step: step }), reply: undefined }
    },
  },

  disableSecondFactor: {
    needs: needsTokens,
    turn({ state: user }, { factor, proof }) {
      requireProof(user, proof, "invalid_password")
      if (!user.totp_enabled) throw fail("second_factor_not_enabled")
      if (!accepted(user, factor)) return { reply: { right: false } }
      return { ...withoutSecondFactor(user), reply: { right: true } }
    },
  },

  confirmIdentity: {
    turn({ state: user }, { proof, factor }) {
      requireProof(user, proof, "wrong_password")
      const used = user.totp_enabled ? accepted(user, factor) : {}
      if (!used) return { reply: { confirmed: false } }
      return { ...(user.totp_enabled && becoming(user, used)), reply: { confirmed: true } }
    },
  },

  renewHash: {
    turn: ({ state: user }, { former, password_hash }) =>
      user.password_hash === former ? { ...becoming(user, { password_hash }), reply: undefined } : { reply: undefined },
  },

  endSession: {
    turn: ({ state: user }, { session_id }) => endSession(user, session_id),
  },

  endAllSessions: {
    turn({ state: user }, { message, until, except }) {
      const ended = [...user.sessions.keys()].filter(
        id => id !== except && (until === undefined || compareIds(id, until) <= 0),
      )
      if (ended.length === 0) return { publish: endedBefore, reply: { ended: 0 } }
      const told = message === null ? [] : [securityLogout.to(userOnly(user.id), { user_id: user.id, message })]
      const out = endedSessions(user, ended)
      return { ...out, publish: [...told, ...out.publish], reply: { ended: ended.length } }
    },
  },

  expireSession: {
    turn({ state: user, now }, { session_id }) {
      const session = user.sessions.get(session_id)
      if (!session) return { reply: { ended: false } }
      if (session.expires_at > secondsAt(now))
        return { publish: [expiry({ ...session, user_id: user.id })], reply: { ended: false } }
      return endSession(user, session_id)
    },
  },

  touchSession: {
    turn({ state: user, now }, { session_id, expires_at }) {
      const session = user.sessions.get(session_id)
      if (!session) return { reply: { expires_at: 0 } }
      const extended = Math.max(session.expires_at, expires_at)
      return {
        apply: draft => {
          draft.sessions.get(session_id)!.expires_at = extended
        },
        write: [touchSession({ id: session_id, expires_at: extended, last_activity: secondsAt(now) })],
        reply: { expires_at: extended },
      }
    },
  },
}

/** SESS3. */
export function requireProof(user: User, proof: Proof, refusal: ErrorCode = "invalid_credentials"): void {
  if (proof.password_hash !== null && !sameHash(proof.password_hash, user.password_hash ?? "")) throw fail(refusal)
}

export function requireOpen(user: User, nowMs: number): void {
  const bar = barToSignIn(user, secondsAt(nowMs))
  if (!bar) return
  // To somebody who signs in, a lock of an operator is one like that after failed sign-ins.
  throw fail(bar.code === "account_suspended" ? "account_locked" : bar.code, { extra: { reason: bar.reason } })
}

const changed = (user: User, changes: Partial<Account>) => updateUser({ ...accountOf(user), ...changes })

/** An account with some of it changed: part of a turn's effects. */
export const becoming = (user: User, changes: Partial<Account>) => ({
  apply: (draft: UserState) => {
    Object.assign(draft, changes)
  },
  write: [changed(user, changes)],
})

/** Deletes the second factor and the challenges that ask for it: part of a turn's effects. */
export function withoutSecondFactor(user: User) {
  const ended = voidTokens(user, ({ kind }) => kind === "two_factor")
  const off = becoming(user, { totp_enabled: false, totp_secret: null, totp_step: 0, backup_codes: [] })
  return {
    ...off,
    apply: (draft: UserState) => {
      ended.apply(draft)
      off.apply(draft)
    },
    write: [...ended.write, ...off.write],
  }
}

export function newSession(id: Snowflake, user: Snowflake, session: NewSession, nowMs: number) {
  const now = secondsAt(nowMs)
  const { token_hash, ip_address, user_agent, expires_at } = session
  return { id, user_id: user, token_hash, ip_address, user_agent, created_at: now, expires_at, last_activity: now }
}

/** One more session, after older ones make space for it (SESS1): part of a turn's effects. */
export function startedSession(user: User, id: Snowflake, session: NewSession, now: number) {
  const started = newSession(id, user.id, session, now)
  const usedAt = ({ id, created_at }: SessionState) => Math.max(created_at, session.lastUses?.[id] ?? 0)
  const kept = [...user.sessions.values()].toSorted((a, b) => usedAt(b) - usedAt(a) || compareIds(b.id, a.id))
  const ended = endedSessions(
    user,
    kept.slice(Math.max(0, session.sessionsPerUser - 1)).map(({ id }) => id),
  )
  return {
    id,
    effects: {
      apply: (draft: UserState) => {
        ended.apply(draft)
        draft.sessions.set(id, started)
      },
      write: [...ended.write, insertSession(started)],
      publish: [...ended.publish, expiry(started)],
    },
  }
}

/** Connections of a session end and cannot be resumed. */
export const disconnected = (user: User, session: Snowflake): Publication =>
  control(userOnly(user.id), { type: "sessionEnded", user: user.id, session })

/** Ends sessions (SESS2): part of a turn's effects. */
export const endedSessions = (user: User, sessions: readonly Snowflake[]) => ({
  apply: (draft: UserState) => {
    for (const id of sessions) draft.sessions.delete(id)
  },
  write: sessions.map(id => deleteSession({ id })),
  publish: sessions.flatMap((session): Publication[] => [
    revoke(session), // over REST
    disconnected(user, session), // on the gateway
  ]),
  after: sessions.length === user.sessions.size ? [signedOutEverywhere] : [],
})

/**
 * Of a turn that finds sessions ended already: its answer waits until no worker accepts them (P12). The
 * turn that ended them may still wait for that.
 */
export const endedBefore: readonly Publication[] = [revoke()]

function endSession(user: User, session_id: Snowflake) {
  if (!user.sessions.has(session_id)) return { publish: endedBefore, reply: { ended: false } }
  return { ...endedSessions(user, [session_id]), reply: { ended: true } }
}

export const expiry = (session: { id: Snowflake; user_id: Snowflake; expires_at: number }) =>
  expireSession.at(
    { user_id: session.user_id, session_id: session.id },
    { key: `session:${session.id}:${session.expires_at}`, runAtMs: session.expires_at * 1000 },
  )
