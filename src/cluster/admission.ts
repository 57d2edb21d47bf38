import { hash } from "node:crypto"
import { readFileSync } from "node:fs"
import { unavailable } from "../contract/errors.ts"
import { commonRateLimits, failedTokenLimit } from "../contract/limits.ts"
import type { RateLimit } from "../contract/registry.ts"
import { limitPercent } from "../domain/tiers.ts"
import { inBatches } from "./batches.ts"
import type { RedisKeys } from "./keys.ts"
import { getEach, type Redis } from "./redis.ts"
import { orUnavailable, type AccessSession, type CachedSession, type Tokens } from "./tokens.ts"

/** A route's own bucket, written out once for the script. */
export interface RouteBucket {
  readonly scope: RateLimit["scope"]
  /** Whether the first id in the path is part of the bucket's name. */
  readonly byResource: boolean
  readonly name: string
  /** "algorithm requests burst window scope" */
  readonly text: string
}

/** `label` is `METHOD /template`. */
export const routeBucket = (limit: RateLimit, label: string): RouteBucket => ({
  scope: limit.scope,
  byResource: limit.scope === "resource",
  name: `:r:${label}`,
  text: `${limit.algorithm} ${limit.requests} ${limit.burst} ${limit.seconds * 1000} ${limit.scope}`,
})

/** State of one bucket, for the headers. Times are seconds. */
export interface BucketFigures {
  readonly scope: "global" | "user" | "ip" | "route" | "resource"
  readonly limit: number
  readonly remaining: number
  /** Unix time. */
  readonly reset: number
  readonly resetAfter: number
  /** 16 hex digits that stand for the bucket. */
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
  | { readonly verdict: "failed"; readonly retryAfter: number }

export interface AdmissionRequest {
  /** The client's address as limits count it. */
  readonly address: string
  /** `undefined`: the route is open and whoever asks is his address; `null`: a token is needed and none came. */
  readonly token: string | null | undefined
  readonly bucket: RouteBucket | undefined
  /** First id in the path; "" when there is none. */
  readonly resource: string
}

export interface AdmissionOptions {
  redis: Redis
  keys: Pick<RedisKeys, "accessSession" | "bucket">
  tokens: Tokens
  /** `RATE_LIMITS=off`: only the session is looked up. */
  enabled: boolean
  limits?: Limits
}

interface Question {
  readonly sessionKey: string
  readonly who: string
  readonly request: AdmissionRequest
}

type Limits = Record<"global" | "user" | "ip", RateLimit>
type Put = (questions: readonly Question[]) => Promise<readonly Answer[]>

/** Requests in one call of the script: few enough that Redis serves others soon. */
const most = 64

/**
 * Lets requests in: one Redis round trip, shared by the requests of one turn of the event loop, says whose token it is
 * and whether the global, the user's or address's, and the route's bucket allow the request. A session that is not cached
 * costs one look into the database and a second trip. On a Redis Cluster it is two trips, slot by slot.
 */
export function createAdmission({ redis, keys, tokens, enabled, limits = commonRateLimits }: AdmissionOptions) {
  const nobody = keys.accessSession("0")
  const put = inBatches<Question, Answer>(
    redis.isCluster
      ? askBySlot({ redis, prefix: keys.bucket(""), limits, tokens })
      : askAtOnce({ redis, prefix: keys.bucket(""), limits }),
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
    if (answer.verdict === "miss") {
      const found = await tokens.fill(presented.session_id)
      answer = await ask(request, tokens.keyOf(presented.session_id), found ? presented.token_hash : "!")
      if (answer.verdict === "miss") throw unavailable("session cache lost an entry")
    }
    return conclude(answer, request)
  }

  async function admitFreely(token: string | null | undefined): Promise<Admitted> {
    if (token === undefined) return { verdict: "ok", caller: undefined, touch: false, figures: undefined }
    if (token === null) return { verdict: "anonymous", figures: undefined }
    const presented = tokens.present(token)
    if (typeof presented === "string") return { verdict: presented, figures: undefined }
    const session = await tokens.find(presented)
    if (typeof session === "string") return { verdict: session, figures: undefined }
    return { verdict: "ok", caller: session, touch: await tokens.touch(session), figures: undefined }
  }

  return {
    async admit(request: AdmissionRequest): Promise<Admitted> {
      if (!enabled) return admitFreely(request.token)
      if (typeof request.token === "string") return admitToken(request, request.token)
      return conclude(await ask(request, nobody, request.token === null ? "-" : ""), request)
    },
  }
}

export type Admission = ReturnType<typeof createAdmission>

interface Door {
  readonly redis: Redis
  readonly prefix: string
  readonly limits: Limits
}

/** One Redis: one script finds the sessions and takes from the buckets, for all at once. */
function askAtOnce({ redis, prefix, limits }: Door): Put {
  redis.defineCommand("admit", { lua: scriptText("admit", limits, false) })
  const scripts = redis as unknown as { admit(keys: number, ...args: string[]): Promise<string[]> }
  return async questions => {
    const args: string[] = []
    for (const { sessionKey } of questions) args.push(sessionKey)
    args.push(prefix)
    for (const { who, request } of questions) args.push(request.address, who, ...bucketOf(request))
    return (await orUnavailable(scripts.admit(questions.length, ...args))).map(parseAnswer)
  }
}

/**
 * A Redis Cluster: the sessions first, each in its slot; then, by caller, his buckets, which are in one slot. Between the
 * two a session may end: as when the request had come a moment before.
 */
function askBySlot({ redis, prefix, limits, tokens }: Door & { readonly tokens: Tokens }): Put {
  redis.defineCommand("admit-caller", { lua: scriptText("admit-caller", limits, true), numberOfKeys: 1 })
  const scripts = redis as unknown as { "admit-caller"(key: string, ...args: string[]): Promise<string[]> }

  function found({ who, request: { address } }: Question, value: string | null) {
    const anybody = { caller: `ip:${address}`, session: undefined }
    if (who === "") return { ...anybody, verdict: "ok" }
    if (who === "-") return { ...anybody, verdict: "anonymous" }
    if (who !== "!" && value === null) return { ...anybody, verdict: "miss" }
    const session = who === "!" ? "revoked" : tokens.judge(value, who)
    if (typeof session === "string") return { ...anybody, verdict: session }
    return { verdict: "ok", caller: `u:${session.user_id}`, session }
  }

  return async questions => {
    const asked = questions.filter(({ who }) => who.length === 64)
    const values = await orUnavailable(getEach(redis, [...new Set(asked.map(({ sessionKey }) => sessionKey))]))
    const byKey = new Map([...new Set(asked.map(({ sessionKey }) => sessionKey))].map((key, i) => [key, values[i]!]))
    const facts = questions.map(question => found(question, byKey.get(question.sessionKey) ?? null))
    const byCaller = new Map<string, number[]>()
    for (const [i, { caller }] of facts.entries()) byCaller.set(caller, [...(byCaller.get(caller) ?? []), i])

    const answers: Answer[] = []
    await Promise.all(
      [...byCaller].map(async ([caller, places]) => {
        const args = places.flatMap(i => {
          const { verdict, session } = facts[i]!
          const { request } = questions[i]!
          const percent = session ? limitPercent(session.tier, session.bot) : 100
          return [verdict, String(percent), session ? textOf(session) : "", request.address, ...bucketOf(request)]
        })
        const key = `${prefix}caller:{${caller}}`
        const texts = await orUnavailable(scripts["admit-caller"](key, prefix, caller, ...args))
        for (const [n, i] of places.entries()) answers[i] = parseAnswer(texts[n]!)
      }),
    )
    for (const [i, answer] of answers.entries()) {
      const { session } = facts[i]!
      if (session && answer.verdict === "ok") answer.touch = await tokens.touch(session)
    }
    return answers
  }
}

function textOf(session: AccessSession): string {
  const told: Partial<AccessSession> = { ...session }
  delete told.token_hash
  delete told.last_activity
  return JSON.stringify(told)
}

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
  session: Caller | undefined
}

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
    case "ok":
      return { verdict: "ok", caller: answer.session, touch: answer.touch, figures: figuresOf(answer, request) }
    case "limited":
    case "anonymous":
    case "revoked":
    case "expired":
      return { verdict: answer.verdict, figures: figuresOf(answer, request) }
    case "failed":
      return { verdict: "failed", retryAfter: answer.waitMs / 1000 }
    default:
      throw new Error(`admit.lua answered ${answer.verdict}`)
  }
}

function figuresOf(answer: Answer, request: AdmissionRequest): BucketFigures {
  const caller = answer.session ? `u:${answer.session.user_id}` : `ip:${request.address}`
  const own = answer.session ? "user" : "ip"
  const scope = answer.bucket === 0 ? "global" : answer.bucket === 1 ? own : request.bucket!.scope
  const name = answer.bucket === 2 ? nameOf(request.bucket!, request) : ""
  return {
    scope,
    limit: answer.limit,
    remaining: answer.remaining,
    reset: (answer.nowMs + answer.waitMs) / 1000,
    resetAfter: answer.waitMs / 1000,
    bucket: hash("sha256", `${scope}:${scope === "ip" ? `ip:${request.address}` : caller}${name}`, "hex").slice(0, 16),
  }
}

/** The limits that every request meets, as the script's first lines. */
function constants(limits: Limits): string {
  const lines = Object.entries(limits).map(
    ([name, { algorithm, requests, burst, seconds }]) =>
      `local ${name}_algorithm, ${name}_requests, ${name}_burst, ${name}_window = '${algorithm}', ${requests}, ${burst}, ${seconds * 1000}`,
  )
  const { requests, seconds } = failedTokenLimit
  return [...lines, `local failed_requests, failed_window = ${requests}, ${seconds * 1000}`].join("\n")
}
