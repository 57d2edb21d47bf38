import { hash, randomBytes, timingSafeEqual } from "node:crypto"
import { unavailable } from "../contract/core/errors.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { isAdministrator, type AccountBars, type OwnAccount } from "../domain/accounts/accounts.ts"
import { secondsAt } from "../std/clock.ts"
import { limitPercent } from "../domain/accounts/tiers.ts"
import { isRedisUnavailable } from "./unavailable.ts"
import { inBatches } from "../std/batches.ts"
import type { Metrics } from "../observability/metrics.ts"
import type { KeptSession, KeptSessions, Look } from "./kept-sessions.ts"
import type { RedisKeys } from "./keys.ts"
import { defineScript, getEach, type Redis } from "./redis.ts"
import { onNewReplication, replicationOf, replicationsOf } from "./replication.ts"

/**
 * Access tokens: `<session id>.<secret>`, the secret 32 random bytes as 43 characters, kept only as its SHA-256. A bot's is
 * `bot.<id>.<secret>`, of 48 bytes: the one session that a bot has, under the bot's own id and without an end. What the servers need to know of a session is cached in Redis beside the limiter's buckets. It keeps:
 *   TOK1  A revoked session is accepted by no look-up that begins after `revoke` returned: a load that was under way fills
 *       nothing, however long it takes, and a fill never replaces anything.
 *   TOK2  A change in the database takes effect after `cacheSeconds` at the latest.
 *   TOK4  A renewed session is never judged by data that was read before `invalidate` was
 *       called.
 *   TOK3  After a fail-over a Redis that may have lost a mark is not used for cached sessions:
 *       the keys are new.
 *   TOK5  What workers keep in memory (kept-sessions.ts) is judged as if it had been asked for: `revoke` and `invalidate`
 *       return when every web worker has dropped it, or cannot use it any more.
 */
export interface AccessSession extends AccountBars {
  session_id: Snowflake
  user_id: Snowflake
  username: string
  badges: string[]
  tier: string
  /** When another holds; unless that is long ago. It bounds how long the session is cached, and is no part of what is. */
  tier_expires_at?: number | null
  bot: boolean
  /** Of a bot. Absent from what a worker of the version before cached. */
  owner_id?: Snowflake | null
  /** Of the whole service. */
  permissions: string[]
  typing_indicators: boolean
  read_receipts: boolean
  /** `GET /users/@me` is answered with it: see session-renewal.ts. */
  account: OwnAccount
  token_hash: string
  expires_at: number
  last_activity: number
  /** The client that signed in, see `clientFingerprint`. */
  origin: string
}

/** What decides whether a connection with its token is let in, and whose it is. */
export type Holder = AccountBars &
  Pick<AccessSession, "session_id" | "user_id" | "bot" | "token_hash" | "expires_at" | "origin">

export interface PresentedToken {
  readonly session_id: Snowflake
  readonly token_hash: string
  /** A bot's: the session is as old as the bot, whenever the token was made. */
  readonly isBot: boolean
}

export const newSecret = (bytes = 32): string => randomBytes(bytes).toString("base64url")
const botSecretBytes = 48
export const newBotSecret = (): string => newSecret(botSecretBytes)
export const botTokenOf = (bot: Snowflake, secret: string): string => `bot.${bot}.${secret}`
export const hashSecret = (secret: string): string => hash("sha256", secret, "hex")

/** A user agent as it is kept with a session. */
export const keptUserAgent = (userAgent: string): string => userAgent.replace(/[^\x20-\x7e]/g, "?").slice(0, 512)
/** A client's address and user agent as one short text; storage/sessions.ts makes the same of what is kept. */
export const clientFingerprint = (address: string, userAgent: string): string =>
  hash("sha256", `${address}\n${keptUserAgent(userAgent)}`, "base64").slice(0, 22)

/** Whether a token comes from the client that signed in. A bot never signed in: its owner takes its token elsewhere. */
export const isSameClient = ({ origin, bot }: Pick<AccessSession, "origin" | "bot">, fingerprint: string): boolean =>
  bot || origin === fingerprint

const shape = /^(?:(0|[1-9]\d{0,18})\.([A-Za-z0-9_-]{43})|bot\.(0|[1-9]\d{0,18})\.([A-Za-z0-9_-]{64}))$/
const otherKinds = /^(2fa|email|bot|webhook)\./

/** Reads a session token. `unknown` is a token that belongs elsewhere. */
export function parseToken(token: string): PresentedToken | "malformed" | "unknown" {
  const parts = shape.exec(token)
  if (!parts) return otherKinds.test(token) ? "unknown" : "malformed"
  const session_id = (parts[1] ?? parts[3])!
  if (session_id.length === 19 && session_id > "9223372036854775807") return "malformed"
  return { session_id, token_hash: hashSecret((parts[2] ?? parts[4])!), isBot: parts[3] !== undefined }
}

/** In Redis, and then in a worker's memory: together no longer than TOK2 allows. */
const cacheSeconds = 300
const markSeconds = 60
/** `last_activity` is written at most this often. */
const touchEverySeconds = 60
const revoked = "revoked"
/** How often a session is looked at that changes each time. */
const maxLooks = 8

/*
 * A cached session: `<SHA-256, 64> <last activity, 10> <expiry, 10> <percent of limits> <user id> <the rest as JSON>`. Workers
 * of the version before read the first five at these places in Redis.
 */
const lastActivityAt = 65
const expiryAt = 76

const lastActivityOf = (value: string): number => Number(value.slice(lastActivityAt, lastActivityAt + 10))
const tenDigits = (seconds: number) => String(seconds).padStart(10, "0")

/** Until when an account is kept out altogether, in Unix seconds. */
export const barredUntil = ({ is_deleted, locked_until }: AccountBars): number =>
  is_deleted ? 9_999_999_999 : locked_until

function encode({ token_hash, last_activity, ...session }: AccessSession): string {
  const { tier_expires_at, owner_id, ...rest } = session
  const percent = limitPercent(rest.tier, rest.bot)
  // Written first, where workers of the version before look for them.
  const barred_until = barredUntil(rest)
  const isFree = isAdministrator(rest.permissions)
  const extras: CachedExtras = {
    ...(barred_until > 0 ? { barred_until } : isFree && { bypass: true }),
    ...(typeof tier_expires_at === "number" && { tier_ends_at: tier_expires_at }),
  }
  const text = JSON.stringify({ ...extras, ...rest, ...(typeof owner_id === "string" && { owner_id }) })
  return `${token_hash} ${tenDigits(last_activity)} ${tenDigits(rest.expires_at)} ${percent} ${rest.user_id} ${text}`
}

/** The session as those know it who are let in. */
export type CachedSession = Omit<AccessSession, "token_hash" | "last_activity">

/** Beside the session in its JSON: for workers of the version before, and for those who keep it. */
interface CachedExtras {
  readonly barred_until?: number
  readonly bypass?: true
  /** In Unix seconds. */
  readonly tier_ends_at?: number
}

function decode(value: string): { readonly session: AccessSession; readonly tierEndsAt: number } {
  const {
    barred_until: _,
    bypass: __,
    tier_ends_at: tierEndsAt = Infinity,
    ...rest
  } = JSON.parse(value.slice(value.indexOf("{"))) as AccessSession & CachedExtras
  const session: AccessSession = rest
  session.token_hash = value.slice(0, 64)
  session.last_activity = lastActivityOf(value)
  session.expires_at = Number(value.slice(expiryAt, expiryAt + 10))
  return { session, tierEndsAt }
}

/** What requests share nobody may change. */
function frozen<T extends object>(value: T): T {
  for (const part of Object.values(value)) if (typeof part === "object" && part !== null) frozen(part as object)
  return Object.freeze(value)
}

/** What a session takes in memory beside the text of its strings. */
const keptOverheadBytes = 1_000

export interface TokensOptions {
  /** A connection for plain commands. */
  redis: Redis
  keys: Pick<RedisKeys, "accessSession" | "accessRenewal">
  /** What the database knows of a session. */
  load: (session: Snowflake) => Promise<AccessSession | undefined>
  /** The same, as far as a connection needs it; without it `admit` is `verify`. */
  holderOf?: (session: Snowflake) => Promise<Holder | undefined>
  /** Whether a session ended together with all others, whatever the cache and the database say of it. */
  isOver?: (session: Snowflake) => boolean
  /** Unix milliseconds. */
  clock: () => number
  /** Without it every look asks Redis, and every other worker is taken to do so, too. */
  keeping?: Keeping | undefined
}

/** What workers keep of sessions in their own memory. */
export interface Keeping {
  readonly kept: KeptSessions<AccessSession>
  /** For how many seconds. */
  readonly forSeconds: number
  /** Makes every worker drop sessions: `SessionDrops.everywhere`. */
  readonly drop: (sessions: readonly Snowflake[]) => Promise<void>
  readonly metrics: Pick<Metrics["sessions"], "looks">
}

/** That a session is active, for Redis. */
interface Amendment {
  readonly key: string
  readonly lastActivity: string
}

/** Sessions in one call of the script: few enough that Redis serves others soon. */
const maxAmended = 64

/** What a token is for, as far as this worker knows. */
export type Judged = AccessSession | "revoked" | "expired"

/** The sessions that all workers share, in Redis; filled from the database. */
function createCache({ redis, keys, load, clock, keeping }: TokensOptions) {
  defineScript(redis, "amend-session")
  defineScript(redis, "begin-fill", 1)
  defineScript(redis, "fill-session", 2)
  defineScript(redis, "renew-session", 2)
  defineScript(redis, "revoke-session", 2)
  const scripts = redis as unknown as {
    "amend-session"(count: number, ...keysAndTimes: string[]): Promise<number[]>
    "begin-fill"(renewal: string, mark: string, seconds: number): Promise<string>
    "fill-session"(key: string, renewal: string, value: string, seconds: number, seen: string): Promise<number | string>
    "renew-session"(key: string, renewal: string, mark: string, seconds: number): Promise<null>
    "revoke-session"(key: string, renewal: string, seconds: number): Promise<null>
  }
  const loads = new Map<Snowflake, Promise<string | null>>()
  const read = inBatches<string, string | null>(keys => orUnavailable(getEach(redis, keys)), 256)
  const amendAll = (all: readonly Amendment[]) =>
    scripts["amend-session"](all.length, ...all.map(({ key }) => key), ...all.map(({ lastActivity }) => lastActivity))
  // On a Redis Cluster each session is in a slot of its own.
  const amendEach = async (all: readonly Amendment[]) =>
    (await Promise.all(all.map(one => amendAll([one])))).map(([noted]) => noted!)
  const amend = inBatches<Amendment, number>(
    all => orUnavailable(redis.isCluster ? amendEach(all) : amendAll(all)),
    maxAmended,
  )

  const keptInRedisSeconds = cacheSeconds - (keeping?.forSeconds ?? 0) // TOK2
  const keyOf = (session: Snowflake) => keys.accessSession(session, replicationOf(redis, session))
  const renewalOf = (session: Snowflake) => keys.accessRenewal(session, replicationOf(redis, session))

  async function loadOnce(session: Snowflake): Promise<string | null> {
    for (let looks = 0; looks < maxLooks; looks++) {
      // TOK3: a mark that is set while this loads may stand in the Redis of now, and in no later one.
      const [key, renewal] = [keyOf(session), renewalOf(session)]
      const seen = await orUnavailable(scripts["begin-fill"](renewal, newSecret(9), markSeconds))
      const found = await load(session)
      if (!found) return null
      const tierLasts = (found.tier_expires_at ?? Infinity) - secondsAt(clock())
      const seconds = Math.min(keptInRedisSeconds, Math.max(1, tierLasts))
      const value = encode(found)
      const answer = await orUnavailable(scripts["fill-session"](key, renewal, value, seconds, seen))
      if (answer !== 0) return typeof answer === "string" ? answer : value // TOK1, TOK4
    }
    throw unavailable("session changes all the time")
  }

  /**
   * Brings a session that was not there into the cache. Null: there is no such session. Askers at the same time share one
   * look, and who has joined it asks again: it may have ended before they began (TOK4).
   */
  async function fill(session: Snowflake): Promise<string | null> {
    for (let looks = 0; looks < maxLooks; looks++) {
      const under = loads.get(session)
      if (!under) {
        const loading = loadOnce(session).finally(() => loads.delete(session))
        loads.set(session, loading)
        return loading
      }
      if ((await under) === null) return null
      const value = await read(keyOf(session))
      if (value !== null) return value
    }
    throw unavailable("session cache loses its entry")
  }

  async function lastUses(sessions: readonly Snowflake[]): Promise<ReadonlyMap<Snowflake, number>> {
    const values = await Promise.all(sessions.map(session => read(keyOf(session)).catch(() => null)))
    const known = sessions.flatMap((session, i): [Snowflake, number][] => {
      const value = values[i]
      return typeof value === "string" && value !== revoked ? [[session, lastActivityOf(value)]] : []
    })
    return new Map(known)
  }

  /** Null: there is no such session. */
  const cached = async (session: Snowflake): Promise<string | null> => (await read(keyOf(session))) ?? fill(session)

  return {
    fill,
    cached,
    /**
     * When sessions were last used, in Unix seconds, as far as all workers know: of those that Redis keeps. It is later than
     * in the database while that is to be written. While Redis is away nothing is known.
     */
    lastUses,
    /** Null: it is not there. */
    read: (session: Snowflake): Promise<string | null> => read(keyOf(session)),
    /** Answers 1 where nobody else has said so lately. */
    amend: (session: Snowflake, lastActivity: number): Promise<number> =>
      amend({ key: keyOf(session), lastActivity: tenDigits(lastActivity) }),
    revoke: (session: Snowflake): Promise<null> =>
      orUnavailable(scripts["revoke-session"](keyOf(session), renewalOf(session), markSeconds)),
    renew: (session: Snowflake): Promise<null> =>
      orUnavailable(scripts["renew-session"](keyOf(session), renewalOf(session), newSecret(9), markSeconds)),
  }
}

/** When it is time to write that a session is in use. */
function createTouches({ clock, keeping }: TokensOptions, { amend }: Pick<ReturnType<typeof createCache>, "amend">) {
  return {
    /** Whether it may be time to write `last_activity`: then `touch` says so. */
    isTouchDue(session: AccessSession): boolean {
      const now = secondsAt(clock())
      if (now - session.last_activity < touchEverySeconds) return false
      const known = keeping?.kept.find(session.session_id)
      return now - (known?.activeAt ?? session.last_activity) >= touchEverySeconds
    },

    /** Whether the time has come to write `last_activity`; who is told so has to do it. */
    touch(session: AccessSession): false | Promise<boolean> {
      const now = secondsAt(clock())
      const known = keeping?.kept.find(session.session_id)
      if (now - (known?.activeAt ?? session.last_activity) < touchEverySeconds) return false
      const before = known?.activeAt
      if (known) known.activeAt = now
      return amend(session.session_id, now).then(
        answer => answer === 1,
        (error: unknown) => {
          if (known) known.activeAt = before!
          throw error
        },
      )
    },
  }
}

export function createTokens(options: TokensOptions) {
  const { redis, isOver = () => false, clock, keeping } = options
  const cache = createCache(options)
  // TOK3
  if (keeping) onNewReplication(redis, () => keeping.kept.dropAll())

  /** What this worker keeps of a session. */
  function keptOf(session: Snowflake): KeptSession<AccessSession> | undefined {
    const found = keeping?.kept.find(session)
    if (found) keeping!.metrics.looks.kept.inc()
    return found
  }

  const judgeKept = ({ session, hash }: KeptSession<AccessSession>, tokenHash: string): Judged =>
    !timingSafeEqual(hash, Buffer.from(tokenHash)) ? "revoked" : isExpired(session) ? "expired" : session

  /** Judges a token without asking anybody; undefined when that needs `find`. */
  function kept({ session_id, token_hash }: PresentedToken): Judged | undefined {
    const found = keptOf(session_id)
    return found && judgeKept(found, token_hash)
  }

  /** What a look that began with `look` has found in Redis, from now on in this worker's memory, too. */
  function taken(look: Look | undefined, id: Snowflake, value: string): AccessSession {
    const { session, tierEndsAt } = decode(value)
    if (look)
      keeping!.kept.keep(look, id, {
        session: frozen(session),
        hash: Buffer.from(session.token_hash),
        activeAt: session.last_activity,
        endsAt: Math.min(tierEndsAt, session.expires_at),
        bytes: keptOverheadBytes + 2 * value.length,
      })
    return session
  }

  function beginLook(): Look | undefined {
    keeping?.metrics.looks.asked.inc()
    return keeping?.kept.begin()
  }

  /** Asks Redis, and the database if need be. */
  async function ask(id: Snowflake): Promise<AccessSession | undefined> {
    const look = beginLook()
    const value = await cache.cached(id)
    return value === null || value === revoked ? undefined : taken(look, id, value)
  }

  /** Asks Redis alone; undefined: the session has to be filled in first. */
  async function findCached(presented: PresentedToken): Promise<Judged | undefined> {
    const look = beginLook()
    const value = await cache.read(presented.session_id)
    return value === null ? undefined : judgeValue(look, presented, value)
  }

  /** Asks the database, after `findCached` has found nothing. */
  async function findStored(presented: PresentedToken): Promise<Judged> {
    const look = keeping?.kept.begin()
    const value = await cache.fill(presented.session_id)
    return value === null ? "revoked" : judgeValue(look, presented, value)
  }

  const judgeValue = (look: Look | undefined, { session_id, token_hash }: PresentedToken, value: string): Judged =>
    value === revoked ? "revoked" : judgeSession(taken(look, session_id, value), token_hash)

  async function find(presented: PresentedToken): Promise<Judged> {
    const known = kept(presented)
    if (known !== undefined) return known
    const session = await ask(presented.session_id)
    return session ? judgeSession(session, presented.token_hash) : "revoked"
  }

  const isExpired = ({ expires_at }: Holder): boolean => expires_at * 1000 <= clock()

  function judgeSession<Known extends Holder>(session: Known, tokenHash: string): Known | "revoked" | "expired" {
    if (!timingSafeEqual(Buffer.from(session.token_hash), Buffer.from(tokenHash))) return "revoked"
    return isExpired(session) ? "expired" : session
  }

  /** The end or the change of sessions is to be seen in Redis; then no worker may know better. */
  async function mark(sessions: readonly Snowflake[], one: (session: Snowflake) => Promise<unknown>): Promise<void> {
    const replications = replicationsOf(redis)
    await Promise.all(sessions.map(one))
    await keeping?.drop(sessions) // TOK5
    // TOK3: another Redis may not have it.
    if (keeping && replicationsOf(redis) !== replications) throw unavailable("redis")
  }

  function present(token: string): PresentedToken | "malformed" | "unknown" | "revoked" {
    const presented = parseToken(token)
    // When everybody is logged out, bots' tokens are taken away one by one.
    return typeof presented !== "string" && !presented.isBot && isOver(presented.session_id) ? "revoked" : presented
  }

  return {
    /** Reads a session token, and says what can be said of it without asking anybody. */
    present,

    /** The session that a token is for. Throws `unavailable` when nobody can say. */
    async verify(token: string): Promise<AccessSession | "malformed" | "revoked" | "expired"> {
      const presented = present(token)
      if (presented === "revoked") return presented
      return typeof presented === "string" ? "malformed" : find(presented)
    },

    /**
     * The same for a connection, which asks once and then lasts: the database is asked if nothing is kept here, and what it
     * says goes into no cache. All who connect at once share a statement.
     */
    async admit(token: string): Promise<Holder | "malformed" | "revoked" | "expired"> {
      const presented = present(token)
      if (presented === "revoked") return presented
      if (typeof presented === "string") return "malformed"
      const known = kept(presented)
      if (known !== undefined) return known
      const look = options.holderOf && beginLook()
      if (!look) return find(presented)
      const holder = await options.holderOf!(presented.session_id).catch(() => "away" as const)
      // TOK1: it may have ended after the database was asked. While that is away, what Redis knows will do.
      if (holder === "away" || !keeping!.kept.holds(look)) return find(presented)
      return holder ? judgeSession(holder, presented.token_hash) : "revoked"
    },

    /** For `isStill`; undefined while nobody can say. */
    look: (): Look | undefined => keeping?.kept.begin(),

    /**
     * Whether what was said of a session after a look had begun is so now, too; nobody is asked. False: it is to be judged
     * again, as some session was ended or changed meanwhile (TOK5).
     */
    isStill: (session: Holder, look: Look | undefined): boolean =>
      look !== undefined &&
      keeping!.kept.holds(look) &&
      !isExpired(session) &&
      (session.bot || !isOver(session.session_id)),

    find,
    findCached,
    findStored,
    kept,

    lastUses: cache.lastUses,

    /** What is known of a session whose token was seen before; undefined: it has ended. */
    known: async (session: Snowflake): Promise<AccessSession | undefined> => keptOf(session)?.session ?? ask(session),

    ...createTouches(options, cache),

    stop(): void {
      keeping?.kept.stop()
    },

    /** Sessions that have ended (TOK1). Rejects when it is not confirmed: then ask again. */
    revoke: (sessions: readonly Snowflake[]): Promise<void> => mark(sessions, cache.revoke),

    /** Sessions whose facts changed (expiry, tier, name): the next look-up loads them. */
    invalidate: (sessions: readonly Snowflake[]): Promise<void> => mark(sessions, cache.renew),
  }
}

export type Tokens = ReturnType<typeof createTokens>

/** A command's answer; `unavailable` when Redis is away, late or unable. */
export async function orUnavailable<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof Error && error.name === "ReplyError" && !isRedisUnavailable(error)) throw error
    throw unavailable("redis", 1, { cause: error })
  }
}
