import { hash } from "node:crypto"
import { readFileSync } from "node:fs"
import type { Redis } from "ioredis"
import { unavailable } from "../contract/errors.ts"
import { commonRateLimits, failedTokenLimit } from "../contract/limits.ts"
import type { RateLimit } from "../contract/registry.ts"
import { inBatches } from "./batches.ts"
import type { RedisKeys } from "./keys.ts"
import { orUnavailable, parseToken, type CachedSession, type Tokens } from "./tokens.ts"

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
  limits?: Record<"global" | "user" | "ip", RateLimit>
}

interface Question {
  readonly sessionKey: string
  readonly who: string
  readonly request: AdmissionRequest
}

/** Requests in one call of the script: few enough that Redis serves others soon. */
const most = 64

/**
 * Lets requests in: one Redis round trip, shared by the requests of one turn of the event loop, says whose token it is
 * and whether the global, the user's or address's, and the route's bucket allow the request. A session that is not cached
 * costs one look into the database and a second trip.
 */
export function createAdmission({ redis, keys, tokens, enabled, limits = commonRateLimits }: AdmissionOptions) {
  const lua = readFileSync(new URL("./lua/admit.lua", import.meta.url), "utf8")
  redis.defineCommand("admit", { lua: `${constants(limits)}\n${lua}` })
  const scripts = redis as unknown as { admit(keys: number, ...args: string[]): Promise<string[]> }
  const prefix = keys.bucket("")
  const nobody = keys.accessSession("0")

  // On Redis Cluster this is where the sessions, the callers' buckets and the addresses' are asked for slot by slot.
  const put = inBatches<Question, string>(questions => {
    const args: string[] = []
    for (const { sessionKey } of questions) args.push(sessionKey)
    args.push(prefix)
    for (const { who, request } of questions) {
      const { address, bucket } = request
      args.push(address, who, bucket ? bucket.text : "", bucket ? nameOf(bucket, request) : "")
    }
    return orUnavailable(scripts.admit(questions.length, ...args))
  }, most)

  const ask = async (request: AdmissionRequest, sessionKey: string, who: string): Promise<Answer> =>
    parseAnswer(await put({ sessionKey, who, request }))

  async function admitToken(request: AdmissionRequest, token: string): Promise<Admitted> {
    const presented = parseToken(token)
    if (typeof presented === "string") {
      const answer = await ask(request, nobody, "!")
      return answer.verdict === "revoked"
        ? { verdict: presented, figures: figuresOf(answer, request) }
        : conclude(answer, request)
    }
    const key = keys.accessSession(presented.session_id)
    let answer = await ask(request, key, presented.token_hash)
    if (answer.verdict === "miss") {
      const found = await tokens.fill(presented.session_id)
      answer = await ask(request, key, found ? presented.token_hash : "!")
      if (answer.verdict === "miss") throw unavailable("session cache lost an entry")
    }
    return conclude(answer, request)
  }

  async function admitFreely(token: string | null | undefined): Promise<Admitted> {
    if (token === undefined) return { verdict: "ok", caller: undefined, touch: false, figures: undefined }
    if (token === null) return { verdict: "anonymous", figures: undefined }
    const presented = parseToken(token)
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
function constants(limits: Record<"global" | "user" | "ip", RateLimit>): string {
  const lines = Object.entries(limits).map(
    ([name, { algorithm, requests, burst, seconds }]) =>
      `local ${name}_algorithm, ${name}_requests, ${name}_burst, ${name}_window = '${algorithm}', ${requests}, ${burst}, ${seconds * 1000}`,
  )
  const { requests, seconds } = failedTokenLimit
  return [...lines, `local failed_requests, failed_window = ${requests}, ${seconds * 1000}`].join("\n")
}
