import { fail } from "../../contract/core/errors.ts"
import type { UserFeatures } from "../../contract/accounts/features.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { announceUser } from "../../contract/core/jobs.ts"
import { userUpdate, type PrivateUser, type ShownUser } from "../../contract/accounts/users.ts"
import { tierAt, type Account } from "../../domain/accounts/accounts.ts"
import { userOnly } from "../../domain/core/audience.ts"
import { secondsAt } from "../../std/clock.ts"
import { accepted, type SecondFactor } from "../../domain/accounts/second-factors.ts"
import { similarity } from "../../domain/accounts/look-alikes.ts"
import { limitsOf } from "../../domain/accounts/tiers.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import { privateUser, shownUser } from "../../storage/accounts/users.ts"
import { isWayBack, noWayBack, wayBackFrom } from "./email-restoration.ts"
import { needsTokens, voidTokens } from "./one-time-tokens.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind, Publication } from "../../runtime/actor.ts"
import { tellsOf } from "../shared/tells.ts"
import { becoming, endedSessions, type Proof } from "./sign-in.ts"
import { recounted } from "../voice/voice.ts"

/**
 * Name, address, password, tier and badges, among the commands of a user's home. They keep:
 *   ACC1  A new password replaces only the password that the request confirmed, not one that was
 *       set in the meantime.
 *   ACC2  A new password ends everything that the old one opened: other sessions, challenges,
 *       emailed tokens. A new address ends the tokens that were sent to the old one. Neither ends a
 *       way back (ACC5).
 *   ACC4  An address is replaced only with the proof of identity that the account asks for when
 *       the change is made.
 *   ACC7  Somebody who has to change their name takes one that is not much like the present one.
 *   ACC3  Everybody who sees a user receives their profile as it is after the last change.
 */

/** What the homes that know a user are told when the user looks different. */
export interface ServerAccountCommands {
  /** Told by the home of somebody who is, or was, a member. */
  memberChanged(input: { user: ShownUser }): void
}
export interface DirectAccountCommands {
  /** Told by the home of one of the two: what is remembered of their messages bears their name. */
  participantChanged(input: { user: ShownUser }): void
}
const tellUser = tellsOf<Pick<AccountCommands, "otherChanged">>("user")
const tellServer = tellsOf<ServerAccountCommands>("server")
const tellDirect = tellsOf<DirectAccountCommands>("direct")

export interface AccountCommands {
  editAccount(input: {
    username?: string | undefined
    email?: string | undefined
    /** Of the new password. */
    password_hash?: string | undefined
    /** How the user proved their identity; a new address or password needs it. */
    shown?: { readonly proof: Proof; readonly factor: SecondFactor } | undefined
    /** The session of the caller; it outlives a change of the password. */
    session_id: Snowflake
    /** A new address has to be verified. */
    verification: boolean
  }): { user: PrivateUser; emailChanged: boolean; isProven: boolean }
  /** What is left out stays as it is. */
  setTier(input: {
    tier?: string | undefined
    /** Unix seconds. A tier that is given without has no end. */
    expires_at?: number | undefined
    notes?: string | null | undefined
  }): UserFeatures
  giveBadge(input: { badge: string }): { badges: string[] }
  takeBadge(input: { badge: string }): { badges: string[] }
  /** Tells these what the user looks like now (ACC3). */
  announce(input: { people: readonly Snowflake[]; servers: readonly Snowflake[]; directs: readonly Snowflake[] }): void
  /** Told by the home of somebody whom this user lists. */
  otherChanged(input: { other: ShownUser }): void
}

type User = Readonlied<UserState>

/** How similar a name may be to the one that has to be changed; see `similarity`. */
const maxSimilar = 0.8

export const accountCommands: ActorKind<UserState, UserState, AccountCommands>["commands"] = {
  editAccount: {
    needs: ({ password_hash, email }) => ((password_hash ?? email) === undefined ? [] : needsTokens()),
    turn({ state: user, now, newId }, { username, email, password_hash, shown, session_id, verification }) {
      if (password_hash !== undefined) requirePassword(user, shown) // ACC1
      const isRenamed = username !== undefined && username !== user.username
      const emailChanged = email !== undefined && email !== user.email
      // ACC7
      if (user.must_rename && isRenamed && similarity(user.username, username) > maxSimilar)
        throw fail("username_too_similar")
      // ACC4
      const factor = emailChanged ? usedFactor(user, shown) : {}
      if (!factor) return { reply: { user: privateUser(user), emailChanged: false, isProven: false } }
      const isForced = user.must_rename && isRenamed
      const changes: Partial<Account> = {
        ...(isRenamed && { username }),
        ...(isForced && { must_rename: false, rename_reason: null }),
        ...(emailChanged && { email, email_confirmed: false, ...(verification && { email_verified: false }) }),
        ...factor,
        ...(password_hash !== undefined && { password_hash }),
      }
      const after = { ...user, ...changes }
      const reply = { user: privateUser(after), emailChanged, isProven: true }
      if (Object.keys(changes).length === 0) return { reply }

      const changed = becoming(user, changes)
      const back = emailChanged ? wayBackFrom(user, email, now, newId) : noWayBack
      // ACC2
      const used = voidTokens(
        user,
        token => !isWayBack(token) && (password_hash !== undefined || (emailChanged && token.kind !== "two_factor")),
        back.tokens,
      )
      const others = password_hash !== undefined ? [...user.sessions.keys()].filter(id => id !== session_id) : []
      const ended = endedSessions(user, others)
      return {
        apply: draft => {
          changed.apply(draft)
          used.apply(draft)
          ended.apply(draft)
        },
        write: [...changed.write, ...used.write, ...ended.write, ...back.write],
        publish: [...ended.publish, ...shownChange(user, after, newId), ...back.publish],
        reply,
      }
    },
  },

  setTier: {
    turn({ state: user, now }, { tier, expires_at, notes }) {
      // Another end does not bring back a tier that is over.
      const given = tier ?? (expires_at === undefined ? user.tier : tierAt(user, secondsAt(now)))
      const changes: Partial<Account> = {
        ...(given !== user.tier && { tier: given }),
        // A tier that is given anew does not end when the one before would have.
        ...(tier !== undefined && { tier_expires_at: null }),
        ...(expires_at !== undefined && { tier_expires_at: expires_at }),
        ...(notes !== undefined && { tier_notes: notes || null }),
      }
      const after = { ...user, ...changes }
      const reply = featuresOf(after, secondsAt(now))
      if ((Object.keys(changes) as (keyof Account)[]).every(name => changes[name] === user[name])) return { reply }
      const changed = becoming(user, changes)
      const call = recounted(after, now)
      return {
        apply: draft => {
          changed.apply(draft)
          call.apply(draft)
        },
        write: [...changed.write, ...call.write],
        publish: call.publish,
        reply,
      }
    },
  },

  giveBadge: {
    turn: ({ state: user, newId }, { badge }) =>
      wearing(user, user.badges.includes(badge) ? user.badges : [...user.badges, badge], newId),
  },

  takeBadge: {
    turn: ({ state: user, newId }, { badge }) =>
      wearing(user, user.badges.includes(badge) ? user.badges.filter(one => one !== badge) : user.badges, newId),
  },

  announce: {
    turn({ state: user }, { people, servers, directs }) {
      const shown = shownUser(user)
      return {
        publish: [
          ...people.map(person =>
            tellUser(person, {
              type: "otherChanged",
              other: shown,
            }),
          ),
          ...servers.map(server =>
            tellServer(server, {
              type: "memberChanged",
              user: shown,
            }),
          ),
          ...directs.map(direct =>
            tellDirect(direct, {
              type: "participantChanged",
              user: shown,
            }),
          ),
        ],
        reply: undefined,
      }
    },
  },

  otherChanged: {
    forListeners: true,
    turn: ({ state: user }, { other }) => ({ publish: [userUpdate.to(userOnly(user.id), other)], reply: undefined }),
  },
}

/** The proof must be of the hash that the account has now, also where it has none. */
function requirePassword(user: User, shown: { readonly proof: Proof } | undefined): void {
  if (shown === undefined) throw fail("missing_current_password")
  if (shown.proof.password_hash !== user.password_hash) throw fail("incorrect_current_password")
}

/** What the proof of identity uses up; undefined: its code is wrong. */
function usedFactor(
  user: User,
  shown: { readonly proof: Proof; readonly factor: SecondFactor } | undefined,
): Partial<Account> | undefined {
  requirePassword(user, shown)
  return user.totp_enabled ? accepted(user, shown!.factor) : {}
}

/**
 * The effects of a visible change: the user is told at once, others by a job that asks
 * who they are (ACC3).
 */
function shownChange(user: User, after: User, newId: () => Snowflake): Publication[] {
  const isSeen = after.username !== user.username || after.badges !== user.badges
  if (isSeen) return looksChanged(after, newId)
  return after.email === user.email ? [] : [updated(after)]
}

/** The user looks different from now on (ACC3). */
export const looksChanged = (user: User, newId: () => Snowflake): Publication[] => [
  updated(user),
  announceUser.at({ user_id: user.id }, { key: `announce:${newId()}` }),
]

const updated = (user: User) => userUpdate.to(userOnly(user.id), { ...shownUser(user), email: user.email })

function wearing(user: User, badges: readonly string[], newId: () => Snowflake) {
  if (badges === user.badges) return { reply: { badges: [...badges] } }
  const changes = { badges }
  return {
    ...becoming(user, changes),
    publish: shownChange(user, { ...user, ...changes }, newId),
    reply: { badges: [...badges] },
  }
}

/** The tier that holds now, and badges, as an administrator sees them. */
export function featuresOf(user: Readonly<Account> & { readonly id: Snowflake }, now: number): UserFeatures {
  const tier = tierAt(user, now)
  return {
    user_id: user.id,
    rate_limit_tier: tier,
    badges: [...user.badges],
    tier_limits: limitsOf(tier),
    expires_at: tier === user.tier ? user.tier_expires_at : null,
  }
}
