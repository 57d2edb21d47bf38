import { hash, timingSafeEqual } from "node:crypto"
import { readFileSync } from "node:fs"
import { unavailable } from "../contract/core/errors.ts"
import {
  defaultRateLimits,
  failedTokenLimit,
  labelOf,
  widerPrefixes,
  type RateLimit,
  type RateLimits,
} from "../contract/core/limits.ts"
import type { Route } from "../contract/core/registry.ts"
import { isAdministrator } from "../domain/accounts/accounts.ts"
import { prefix48 } from "../domain/core/client-address.ts"
import { limitPercent } from "../domain/accounts/tiers.ts"
import { inBatches } from "../std/batches.ts"
import type { RedisKeys } from "./keys.ts"
import { getEach, type Redis } from "./redis.ts"
import {
  barredUntil,
  isSameClient,
  maxLooks,
  orUnavailable,
  type AccessSession,
  type CachedSession,
  type Tokens,
} from "./tokens.ts"

/** A route's own bucket, written out once for the script. */
export interface RouteBucket {
  readonly scope: RateLimit["scope"]
  /** Whether the first id in the path is part of the bucket's name. */
  readonly byResource: boolean
  readonly name: string
  /** "algorithm requests burst window scope", and " requests:window" for each cap. */
  readonly text: string
}

/** `label`: see `labelOf`. */
export const routeBucket = (limit: RateLimit, label: string): RouteBucket => ({
  scope: limit.scope,
  byResource: limit.scope === "resource" || limit.scope === "webhook",
  name: `:r:${label}`,
  text: [limit.algorithm, limit.requests, limit.burst, windowOf(limit), limit.scope, ...capsOf(limit)].join(" "),
})
const windowOf = ({ seconds }: { readonly seconds: number }) => Math.round(seconds * 1000)
const capsOf = ({ caps = [] }: RateLimit) => caps.map(cap => `${cap.requests}:${windowOf(cap)}`)

/** State of one bucket, for the headers. Times are seconds. */
export interface BucketFigures {
  readonly scope: RateLimit["scope"] | "global" | "bypass"
  readonly limit: number
  readonly remaining: number
  /** Unix time. */
  readonly reset: number
  readonly resetAfterSeconds: number
  /** 16 hex digits that stand for the bucket, or "bypass". */
  readonly bucket: string
}

export type Caller = CachedSession

/** `touch`: the session's `last_activity` is due, and nobody else was told so. */
export type Admitted =
  | {
      readonly verdict: "ok"
      readonly caller: Caller | undefined
      readonly touch: boolean
      readonly figures: BucketFigures | undefined
    }
  | {
      readonly verdict: "anonymous" | "malformed" | "unknown" | "revoked" | "expired"
      readonly figures: BucketFigures | undefined
    }
  | { readonly verdict: "limited"; readonly figures: BucketFigures }
  | { readonly verdict: "failed"; readonly figures: BucketFigures }

type AdmittedFreely = Exclude<Admitted, { readonly verdict: "limited" | "failed" }>

export interface AdmissionRequest {
  /** The client's address as limits count it. */
  readonly address: string
  /** `undefined`: the route is open and the caller is known by their address; `null`: a token is needed and none came. */
  readonly token: string | null | undefined
  /** Where a token is good only for the client that signed in: who asks, see `clientFingerprint`. */
  readonly fingerprint?: string | undefined
  readonly bucket: RouteBucket | undefined
  /** First id in the path; "" when there is none. */
  readonly resource: string
  /** The header that lifts the limits for who knows the secret. */
  readonly bypass?: string | undefined
}

export interface AdmissionOptions {
  redis: Redis
  keys: Pick<RedisKeys, "accessSession" | "bucket">
  tokens: Tokens
  /** `RATE_LIMITS=off`: only the session is looked up. */
  enabled: boolean
  limits?: RateLimits
  /** A caller who sends it is not limited. */
  bypassSecret?: string | undefined
}

interface Question {
  readonly sessionKey: string
  readonly who: string
  readonly request: AdmissionRequest
}

type Limits = RateLimits["common"]
type Put = (questions: readonly Question[]) => Promise<readonly Answer[]>

/** Looks into the database for tokens of an address from which too many failed. */
const looksWhenFailed = { requests: 10, seconds: 1 }

/** Requests in one call of the script: few enough that Redis serves others soon. */
const most = 64

/**
 * Lets requests in: one Redis round trip, shared by the requests of one turn of the event loop, says whose token it is
 * and whether the global, the user's or address's, and the route's bucket allow the request. A session that is not cached
 * costs one look into the database and a second trip. On a Redis Cluster it is two trips, slot by slot.
 */
export function createAdmission(options: AdmissionOptions) {
  const { redis, keys, tokens, enabled, limits = defaultRateLimits, bypassSecret } = options
  const secret = bypassSecret === undefined ? undefined : digestOf(bypassSecret)
  const nobody = keys.accessSession("0")
  const prefix = keys.bucket("")
  redis.defineCommand("count-failed", {
    lua: scriptText("count-failed", limits.common, redis.isCluster),
    numberOfKeys: 1,
  })
  const scripts = redis as unknown as { "count-failed"(key: string, ...args: string[]): Promise<number> }
  const put = inBatches<Question, Answer>(
    redis.isCluster
      ? askBySlot({ redis, prefix, limits: limits.common, tokens })
      : askInOneScript({ redis, prefix, limits: limits.common }),
    most,
  )
  const ask = (request: AdmissionRequest, sessionKey: string, who: string): Promise<Answer> =>
    put({ sessionKey, who, request })

  async function admitToken(request: AdmissionRequest, token: string): Promise<Admitted> {
    const presented = tokens.present(token)
    if (typeof presented === "string") {
      const answer = await ask(request, nobody, "!")
      return answer.verdict === "revoked"
        ? { verdict: presented, figures: figuresOf(answer, request) }
        : conclude(answer, request)
    }
    let answer = await ask(request, tokens.keyOf(presented.session_id), presented.token_hash)
    // A session may be renewed between its being cached and the next look.
    for (let looks = 0; answer.verdict === "miss"; looks++) {
      if (looks === maxLooks) throw unavailable("session cache loses its entry")
      const found = await tokens.fill(presented.session_id)
      answer = await ask(request, tokens.keyOf(presented.session_id), found ? presented.token_hash : "!")
    }
    return conclude(answer, request)
  }

  async function admitFreely({ token, fingerprint }: AdmissionRequest): Promise<AdmittedFreely> {
    if (token === undefined) return { verdict: "ok", caller: undefined, touch: false, figures: undefined }
    if (token === null) return { verdict: "anonymous", figures: undefined }
    const presented = tokens.present(token)
    if (typeof presented === "string") return { verdict: presented, figures: undefined }
    const session = await tokens.find(presented)
    if (typeof session === "string") return { verdict: session, figures: undefined }
    if (fingerprint !== undefined && !isSameClient(session, fingerprint))
      return { verdict: "revoked", figures: undefined }
    return { verdict: "ok", caller: session, touch: await tokens.touch(session), figures: undefined }
  }

  const knows = (bypass: string) => secret !== undefined && timingSafeEqual(digestOf(bypass), secret)

  return {
    /** The bucket of a route's own, if it has one. */
    bucketFor(route: Route): RouteBucket | undefined {
      if (route.limit === "none") return undefined
      const label = labelOf(route)
      const limit = limits.routes.get(label) ?? route.limit
      return limit && routeBucket(limit, label)
    },

    async admit(request: AdmissionRequest): Promise<Admitted> {
      if (!enabled) return admitFreely(request)
      if (request.bypass !== undefined && knows(request.bypass))
        return { ...(await admitFreely(request)), figures: bypassFigures(Date.now()) }
      if (typeof request.token === "string") return admitToken(request, request.token)
      return conclude(await ask(request, nobody, request.token === null ? "-" : ""), request)
    },

    /** Counts a token that failed elsewhere than at `admit`; true: there were too many from that address already. */
    async isFailedTooOften(address: string): Promise<boolean> {
      if (!enabled) return false
      return (
        (await orUnavailable(
          scripts["count-failed"](`${prefix}failed:{${slotOf(`ip:${address}`)}}`, prefix, address),
        )) === 1
      )
    },
  }
}

export type Admission = ReturnType<typeof createAdmission>

const digestOf = (text: string) => hash("sha256", text, "buffer")

/** What somebody is told whom no limit holds for. */
const bypassFigures = (nowMs: number): BucketFigures => ({
  scope: "bypass",
  limit: 999_999,
  remaining: 999_999,
  reset: nowMs / 1000 + 60,
  resetAfterSeconds: 60,
  bucket: "bypass",
})

/** On a Redis Cluster the buckets of a whole IPv6 /48 are in one slot, so that one script can look at those of the /48, too. */
const slotOf = (caller: string): string =>
  caller.startsWith("ip:") ? `ip:${prefix48(caller.slice(3)) ?? caller.slice(3)}` : caller

interface BucketScripts {
  readonly redis: Redis
  readonly prefix: string
  readonly limits: Limits
}

/** One Redis: one script finds the sessions and takes from the buckets, for all at once. */
function askInOneScript({ redis, prefix, limits }: BucketScripts): Put {
  redis.defineCommand("admit", { lua: scriptText("admit", limits, false) })
  const scripts = redis as unknown as { admit(keys: number, ...args: string[]): Promise<string[]> }
  return async questions => {
    const args: string[] = []
    for (const { sessionKey } of questions) args.push(sessionKey)
    args.push(prefix)
    for (const { who, request } of questions)
      args.push(request.address, who, request.fingerprint ?? "", ...bucketOf(request))
    return (await orUnavailable(scripts.admit(questions.length, ...args))).map(parseAnswer)
  }
}

/**
 * A Redis Cluster: the sessions first, each in its slot; then, by caller, their buckets, which are in one slot. Between the
 * two a session may end: as when the request had come a moment before.
 */
function askBySlot({ redis, prefix, limits, tokens }: BucketScripts & { readonly tokens: Tokens }): Put {
  redis.defineCommand("admit-caller", { lua: scriptText("admit-caller", limits, true), numberOfKeys: 1 })
  const scripts = redis as unknown as { "admit-caller"(key: string, ...args: string[]): Promise<string[]> }

  function found({ who, request: { address, fingerprint } }: Question, value: string | null) {
    const anybody = { caller: `ip:${address}`, session: undefined }
    if (who === "") return { ...anybody, verdict: "ok" }
    if (who === "-") return { ...anybody, verdict: "anonymous" }
    if (who !== "!" && value === null) return { ...anybody, verdict: "miss" }
    const session = who === "!" ? "revoked" : tokens.judge(value, who)
    if (typeof session === "string") return { ...anybody, verdict: session }
    if (fingerprint !== undefined && !isSameClient(session, fingerprint)) return { ...anybody, verdict: "revoked" }
    if (barredUntil(session) * 1000 > Date.now()) return { ...anybody, verdict: "barred", session }
    return { verdict: "ok", caller: `u:${session.user_id}`, session }
  }

  return async questions => {
    const asked = questions.filter(({ who }) => who.length === 64)
    const values = await orUnavailable(getEach(redis, [...new Set(asked.map(({ sessionKey }) => sessionKey))]))
    const byKey = new Map([...new Set(asked.map(({ sessionKey }) => sessionKey))].map((key, i) => [key, values[i]!]))
    const facts = questions.map(question => found(question, byKey.get(question.sessionKey) ?? null))
    const answers: Answer[] = []
    /** Asks about the requests at these places, as those of one caller, whose buckets are in one slot. */
    const takeFrom = async (caller: string, places: readonly number[], step?: "caller" | "webhook") => {
      const args = places.flatMap(i => {
        const { verdict, session } = facts[i]!
        const { request } = questions[i]!
        const percent = session ? limitPercent(session.tier, session.bot) : 100
        return [step ?? verdict, String(percent), session ? textOf(session) : "", request.address, ...bucketOf(request)]
      })
      const key = `${prefix}caller:{${slotOf(caller)}}`
      const texts = await orUnavailable(scripts["admit-caller"](key, prefix, caller, ...args))
      for (const [n, i] of places.entries()) answers[i] = parseAnswer(texts[n]!)
    }
    const takeFromEach = async (whose: (i: number) => string | undefined, step?: "caller" | "webhook") => {
      const byCaller = new Map<string, number[]>()
      for (const i of questions.keys()) {
        const caller = whose(i)
        if (caller !== undefined) byCaller.set(caller, [...(byCaller.get(caller) ?? []), i])
      }
      await Promise.all([...byCaller].map(([caller, places]) => takeFrom(caller, places, step)))
    }
    // Their route is open: the caller has no session.
    const webhookOf = (i: number) => {
      const { bucket, resource } = questions[i]!.request
      return bucket?.scope === "webhook" && facts[i]!.verdict === "ok" && !facts[i]!.session
        ? `webhook:${resource}`
        : undefined
    }

    for (const [i, { session, verdict }] of facts.entries())
      if (session && verdict === "ok" && isAdministrator(session.permissions ?? []))
        answers[i] = { ...unlimited, nowMs: Date.now(), session: callerOf(session) }
    await Promise.all([
      takeFromEach(i => (answers[i] || webhookOf(i) ? undefined : facts[i]!.caller)),
      takeFromEach(i => webhookOf(i) && facts[i]!.caller, "caller"),
    ])
    await takeFromEach(i => (answers[i]!.verdict === "ok" ? webhookOf(i) : undefined), "webhook")
    for (const [i, answer] of answers.entries()) {
      const { session } = facts[i]!
      if (session && answer.verdict === "ok") answer.touch = await tokens.touch(session)
    }
    return answers
  }
}

function callerOf(session: AccessSession): Caller {
  const { token_hash: _, last_activity: __, ...told } = session
  return told
}
const textOf = (session: AccessSession): string => JSON.stringify(callerOf(session))

/** The script beside this file, behind what it has in common with the other one and the limits that every request meets. */
function scriptText(name: string, limits: Limits, isCluster: boolean): string {
  const [shared, own] = ["buckets", name].map(file =>
    readFileSync(new URL(`./lua/${file}.lua`, import.meta.url), "utf8"),
  )
  return [constants(limits), `local is_cluster = ${isCluster}`, shared, own].join("\n")
}

/** The text of a request's own bucket, and the rest of its name. */
const bucketOf = (request: AdmissionRequest): [text: string, name: string] =>
  request.bucket ? [request.bucket.text, nameOf(request.bucket, request)] : ["", ""]

const nameOf = (bucket: RouteBucket, request: AdmissionRequest) =>
  bucket.byResource ? `${bucket.name}:res:${request.resource}` : bucket.name

interface Answer {
  verdict: string
  bucket: number
  limit: number
  remaining: number
  waitMs: number
  nowMs: number
  touch: boolean
  /** Of `ok` and `barred`. */
  session: Caller | undefined
}

/** Of an administrator. */
const unlimited = { verdict: "ok", bucket: 3, limit: 0, remaining: 0, waitMs: 0, touch: false } as const

function parseAnswer(text: string): Answer {
  let from = 0
  const next = () => {
    const to = text.indexOf(" ", from)
    const part = text.slice(from, to)
    from = to + 1
    return part
  }
  return {
    verdict: next(),
    bucket: Number(next()),
    limit: Number(next()),
    remaining: Number(next()),
    waitMs: Number(next()),
    nowMs: Number(next()),
    touch: next() === "1",
    session: from < text.length ? (JSON.parse(text.slice(from)) as Caller) : undefined,
  }
}

function conclude(answer: Answer, request: AdmissionRequest): Admitted {
  switch (answer.verdict) {
    // An account that is kept out is still somebody: the HTTP server says what bars it.
    case "ok":
    case "barred":
      return { verdict: "ok", caller: answer.session, touch: answer.touch, figures: figuresOf(answer, request) }
    case "limited":
    case "anonymous":
    case "revoked":
    case "expired":
      return { verdict: answer.verdict, figures: figuresOf(answer, request) }
    case "failed":
      return { verdict: "failed", figures: figuresOf(answer, request) }
    default:
      throw new Error(`admit.lua answered ${answer.verdict}`)
  }
}

function figuresOf(answer: Answer, request: AdmissionRequest): BucketFigures {
  if (answer.bucket === 3) return bypassFigures(answer.nowMs)
  const session = answer.verdict === "barred" ? undefined : answer.session
  const caller = session ? `u:${session.user_id}` : `ip:${request.address}`
  const own = session ? "user" : "ip"
  const scope = answer.bucket === 0 ? "global" : answer.bucket === 1 ? own : request.bucket!.scope
  const name = answer.verdict === "failed" ? ":failed" : answer.bucket === 2 ? nameOf(request.bucket!, request) : ""
  const holders: Partial<Record<typeof scope, string>> = { ip: `ip:${request.address}`, webhook: "" }
  return {
    scope,
    limit: answer.limit,
    remaining: answer.remaining,
    reset: (answer.nowMs + answer.waitMs) / 1000,
    resetAfterSeconds: answer.waitMs / 1000,
    bucket: hash("sha256", `${scope}:${holders[scope] ?? caller}${name}`, "hex").slice(0, 16),
  }
}

/** The limits that every request meets, as the script's first lines. */
function constants(limits: Limits): string {
  const lines = Object.entries(limits).map(
    ([name, limit]) =>
      `local ${name}_limit = {'${limit.algorithm}', ${limit.requests}, ${limit.burst}, ${windowOf(limit)}, '${capsOf(limit).join(" ")}'}`,
  )
  const { requests, seconds } = failedTokenLimit
  return [
    ...lines,
    `local failed_requests, failed_window = ${requests}, ${seconds * 1000}`,
    `local times_56, times_48 = ${widerPrefixes.times56}, ${widerPrefixes.times48}`,
    `local looks_requests, looks_window = ${looksWhenFailed.requests}, ${windowOf(looksWhenFailed)}`,
  ].join("\n")
}
