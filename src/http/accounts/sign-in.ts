import { userActor } from "../../actors/user.ts"
import { newTokenSecret, tokenText } from "../../cluster/one-time-tokens.ts"
import { hashSecret, keptUserAgent, newSecret, type Tokens } from "../../cluster/tokens.ts"
import type { LoginReply } from "../../contract/accounts/auth.ts"
import { fail, Failure, type ErrorCode } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { secondsAt } from "../../std/clock.ts"
import { compareIds } from "../../domain/core/snowflake.ts"
import { loginKeyOf, loginKeyOfName } from "../../domain/accounts/failed-logins.ts"
import type { SaidGroups } from "../../domain/accounts/one-time-tokens.ts"
import type { SecondFactor } from "../../domain/accounts/second-factors.ts"
import type { ListedSession } from "../../storage/accounts/sessions.ts"
import { privateUser, type UserRow } from "../../storage/accounts/users.ts"
import type { PublicCall } from "../server/handlers.ts"
import { readBackupCode, stepOf } from "../../integrations/one-time-codes.ts"
import type { Http, Policy, Uses } from "../shared/http.ts"
import type { Hashing } from "../../integrations/password-hashing.ts"
import type { Passkeys } from "../../integrations/passkeys.ts"
import type { Secrets } from "../../integrations/secrets.ts"

/**
 * The sessions of a user, the latest use first: also that of the last seconds, which PostgreSQL may not have yet. While Redis
 * is away it is what PostgreSQL has.
 */
export async function sessionsOf(
  { storage, tokens, clock }: Pick<Http<"sessions">, "storage" | "clock"> & LastUses,
  user: Snowflake,
): Promise<ListedSession[]> {
  const stored = await storage.sessions.ofUser(user, secondsAt(clock()))
  const lastUses = await tokens.lastUses(stored.map(({ id }) => id))
  return stored
    .map(session => ({ ...session, last_activity: Math.max(session.last_activity, lastUses.get(session.id) ?? 0) }))
    .toSorted((a, b) => b.last_activity - a.last_activity || compareIds(b.id, a.id))
}

/** Where a request came from, as a session remembers it. */
type Whence = Pick<PublicCall, "address" | "userAgent">

/** What the operator decides about signing in. */
export interface SignInPolicy {
  readonly email_verification_required: boolean
  readonly login_failures_allowed: number
  readonly login_lockout_minutes: number
  readonly two_factor_challenge_seconds: number
  readonly session_lifetime_hours: number
  readonly sessions_per_user: number
}

/** When sessions were last used, as far as Redis knows. */
interface LastUses {
  readonly tokens: Pick<Tokens, "lastUses">
}

export type SignInNeeds = Http<"users" | "sessions"> &
  LastUses &
  Policy<SignInPolicy> &
  Uses<{ readonly hashing: Hashing; readonly secrets: Secrets; readonly passkeys: Passkeys | undefined }>

export const totpSeal = (user: Snowflake) => `totp ${user}`
export const backupSeal = (user: Snowflake) => `backup ${user}`

/** When a session that begins or is used now ends. `clock`: Unix milliseconds. */
export const sessionEnd = ({
  policy,
  clock,
}: Pick<Http, "clock"> & Policy<Pick<SignInPolicy, "session_lifetime_hours">>): number =>
  secondsAt(clock()) + policy.session_lifetime_hours * 3600

/** The account of a session; it may have gone away while the session was still cached. */
export async function own({ storage }: Pick<Http<"users">, "storage">, id: Snowflake): Promise<UserRow> {
  const user = await storage.users.find(id)
  if (!user) throw fail("revoked_token")
  return user
}

/**
 * Counts wrong passwords and codes of an account, and judges both by the count (LOGIN1 to LOGIN4,
 * see `createSignIn`).
 */
function createJudging({ storage, policy, clock, integrations: { hashing } }: SignInNeeds) {
  const seconds = () => secondsAt(clock())
  const allowed = policy.login_failures_allowed
  const lockSeconds = policy.login_lockout_minutes * 60

  const requireUnlocked = async (key: string): Promise<void> => {
    if (await storage.sessions.isLocked(key, seconds())) throw fail("account_locked")
  }
  const countFailure = async (key: string): Promise<void> => {
    if (!(await storage.sessions.countFailure(key, seconds(), allowed, lockSeconds))) throw fail("account_locked")
  }

  /** Judges a password (LOGIN1, LOGIN2); `stored` undefined: there is no such name (LOGIN3). */
  async function judge(
    key: string,
    password: string,
    stored: string | null | undefined,
    refusal: ErrorCode,
  ): Promise<void> {
    await requireUnlocked(key)
    if (!(await hashing.verify(password, stored))) {
      await countFailure(key)
      throw fail(refusal)
    }
    await requireUnlocked(key)
  }

  return {
    judge,

    /**
     * Does what a password opens, for somebody whose password was right a moment ago. `act` fails
     * with `refusal` where the hash is another by now: then it is judged once more (LOGIN4). A
     * password that was changed is wrong the second time.
     */
    async opened<T>(
      user: UserRow,
      password: string,
      refusal: ErrorCode,
      act: (user: UserRow) => Promise<T>,
    ): Promise<T> {
      try {
        return await act(user)
      } catch (error) {
        if (!(error instanceof Failure && error.code === refusal)) throw error
        const now = await storage.users.find(user.id)
        if (!now || now.password_hash === user.password_hash) throw error
        await judge(loginKeyOf(now.id), password, now.password_hash, refusal)
        return act(now)
      }
    },

    /**
     * Tries a code, counted before (LOGIN2). That is taken back where it is known not to have been
     * wrong: another refusal came of it. When nobody answered, it may have been.
     */
    async tryCode<T>(
      user: Pick<UserRow, "id">,
      attempt: () => Promise<T>,
      isWrong: (result: T) => boolean,
    ): Promise<T> {
      const key = loginKeyOf(user.id)
      // What stays counted errs on the careful side.
      const takeBack = () => storage.sessions.takeBackFailure(key).catch(() => {})
      await countFailure(key)
      let result: T
      try {
        result = await attempt()
      } catch (error) {
        if (error instanceof Failure && error.code !== "unavailable") await takeBack()
        throw error
      }
      if (!isWrong(result)) await takeBack()
      return result
    },

    /**
     * A lock that was set while the right password was checked stays. A sign-in through a provider is
     * not affected by it.
     */
    clearFailures: (user: Pick<UserRow, "id">, isByPassword = true): Promise<void> =>
      storage.sessions.clearFailures(loginKeyOf(user.id), isByPassword ? seconds() : undefined),
  }
}

/** Begins sessions of users who have proved their identity. */
function createSessionStart(
  http: SignInNeeds,
  { clearFailures }: Pick<ReturnType<typeof createJudging>, "clearFailures">,
) {
  const { ask, policy, clock } = http

  /** A session to be, and the part of its token that nobody else knows. */
  function newSession({ address, userAgent }: Whence) {
    const secret = newSecret()
    const session = {
      token_hash: hashSecret(secret),
      ip_address: address,
      user_agent: keptUserAgent(userAgent),
      expires_at: sessionEnd(http),
      sessionsPerUser: policy.sessions_per_user,
    }
    return { secret, session }
  }

  /** The same for somebody who may have sessions: one of them may have to make space (SESS1). */
  async function oneMoreSession(call: Whence, user: Snowflake) {
    const { secret, session } = newSession(call)
    const others = await sessionsOf(http, user)
    return {
      secret,
      session: { ...session, lastUses: Object.fromEntries(others.map(({ id, last_activity }) => [id, last_activity])) },
    }
  }

  /**
   * Completes the sign-in of a user who has proved their identity: bars, second factor, session.
   * @param proof the hash that the password matched; null: through a provider
   * @param begun what else is done before anybody has the session's token; not where a second factor is asked for
   */
  async function complete(
    user: UserRow,
    call: Whence,
    proof: { password_hash: string | null },
    { groups = null, begun }: { groups?: SaidGroups | null; begun?: (session: Snowflake) => Promise<void> } = {},
  ): Promise<LoginReply> {
    if (proof.password_hash !== null && policy.email_verification_required && !user.email_verified)
      throw fail("email_not_verified")
    const { secret, session } = await oneMoreSession(call, user.id)
    const challenge = newTokenSecret()
    const lasts = policy.two_factor_challenge_seconds
    const started = await ask(userActor, user.id, {
      type: "startSession",
      session,
      challenge: { token_hash: challenge.token_hash, expires_at: secondsAt(clock()) + lasts, groups },
      proof,
    })
    if (started.session_id === null) {
      const token = tokenText("two_factor", started.challenge_id, challenge.secret)
      return challenged(token, lasts, started.hasPasskeys && http.integrations.passkeys !== undefined)
    }
    await begun?.(started.session_id)
    await clearFailures(user, proof.password_hash !== null)
    return signedIn(user, `${started.session_id}.${secret}`)
  }

  return { newSession, oneMoreSession, complete }
}

/**
 * How a person proves their identity, for every route that asks. It keeps:
 *   LOGIN1  Wrong passwords and codes count together per account, on all routes and for all its
 *       names. At `login_failures_allowed` the account is locked for `login_lockout_minutes`.
 *       Only a complete sign-in resets the count; after a lock it starts again.
 *   LOGIN2  Concurrent guesses cannot outrun the count: a password is judged after the hash, in
 *       the order in which the database counts; a code counts before it is tried. A request
 *       after the lock is told only of the lock.
 *   LOGIN3  An unknown name costs a hash and is locked like an account.
 *   LOGIN4  Rehashing a password while it is used does not refuse the user.
 */
export function createSignIn(http: SignInNeeds) {
  const {
    ask,
    storage,
    clock,
    integrations: { hashing, secrets },
  } = http
  const { judge, opened, tryCode, clearFailures } = createJudging(http)
  const { newSession, oneMoreSession, complete } = createSessionStart(http, { clearFailures })

  /** The same password, hashed with the parameters of today. */
  async function renewHash({ id, password_hash }: UserRow, password: string): Promise<void> {
    if (password_hash === null || !hashing.isOutdated(password_hash)) return
    const renewed = await hashing.hash(password)
    await ask(userActor, id, { type: "renewHash", former: password_hash, password_hash: renewed })
  }

  return {
    newSession,
    oneMoreSession,
    complete,
    clearFailures,
    tryCode,

    /** Signs a user in with their name or address and their password. */
    async withPassword(name: string, password: string, call: Whence): Promise<LoginReply> {
      const refusal = "invalid_credentials"
      hashing.requireCapacity()
      const user = await storage.users.findByLogin(name)
      // Every spelling of a known name has the same lock.
      await judge(user ? loginKeyOf(user.id) : loginKeyOfName(name), password, user?.password_hash, refusal)
      return opened(user!, password, refusal, async known => {
        const reply = await complete(known, call, { password_hash: known.password_hash })
        // Nobody waits for it, and where it fails the next sign-in tries again.
        renewHash(known, password).catch(() => {})
        return reply
      })
    },

    /** Does what a signed-in user needs their password for; the turn compares the hash again. */
    async requirePassword<T>(
      user: UserRow,
      password: string,
      refusal: ErrorCode,
      act: (user: UserRow) => Promise<T>,
    ): Promise<T> {
      await judge(loginKeyOf(user.id), password, user.password_hash, refusal)
      return opened(user, password, refusal, act)
    },

    /** What a code would have to be; whether it is, the turn decides. */
    factorOf(user: Pick<UserRow, "id" | "totp_secret">, code: string): SecondFactor {
      const backup = readBackupCode(code)
      if (backup !== undefined) return { digest: secrets.digest(backup, backupSeal(user.id)) }
      if (user.totp_secret === null) return null
      const step = stepOf(code, secrets.open(user.totp_secret, totpSeal(user.id)), secondsAt(clock()))
      return step === undefined ? null : { secret: user.totp_secret, step }
    },
  }
}

export const signedIn = (user: UserRow, token: string): LoginReply => ({
  status: "success",
  token,
  user: privateUser(user),
  challenge_token: null,
  methods: null,
  expires_in: null,
})

const challenged = (challenge_token: string, expires_in: number, hasPasskeys: boolean): LoginReply => ({
  status: "two_factor_required",
  token: null,
  user: null,
  challenge_token,
  methods: ["totp", "backup_code", ...(hasPasskeys ? (["passkey"] as const) : [])],
  expires_in,
})
