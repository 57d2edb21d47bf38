import { hash, timingSafeEqual } from "node:crypto"
import { defaultRateLimits, labelOf, type RateLimit, type RateLimits } from "../contract/core/limits.ts"
import type { Route } from "../contract/core/registry.ts"
import { isAdministrator } from "../domain/accounts/accounts.ts"
import { limitPercent } from "../domain/accounts/tiers.ts"
import type { Metrics } from "../observability/metrics.ts"
import type { Clock } from "../std/clock.ts"
import { capsOf, openBuckets, windowOf, type BucketAnswer, type BucketQuestion } from "./bucket-calls.ts"
import type { RedisKeys } from "./keys.ts"
import { Leases, type Lease, type LeaseBounds } from "./leases.ts"
import type { Redis } from "./redis.ts"
import { onNewReplication } from "./replication.ts"
import {
  barredUntil,
  isSameClient,
  type AccessSession,
  type CachedSession,
  type Judged,
  type PresentedToken,
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
  readonly capacity: number
  /** Whether a worker may take more than one request at once from it. */
  readonly isLent: boolean
}

/** `label`: see `labelOf`. */
export const routeBucket = (limit: RateLimit, label: string): RouteBucket => ({
  scope: limit.scope,
  byResource: limit.scope === "resource" || limit.scope === "webhook",
  name: `:r:${label}`,
  text: [limit.algorithm, limit.requests, limit.burst, windowOf(limit), limit.scope, ...capsOf(limit)].join(" "),
  capacity: capacityOf(limit),
  isLent: isLent(limit),
})

const capacityOf = ({ requests, burst }: RateLimit): number => requests + burst

/** What has caps or belongs to everybody is counted one by one. */
const isLent = ({ caps = [], scope }: RateLimit): boolean => caps.length === 0 && scope !== "webhook"

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
  /**
   * The client's address as limits count it. Who is waited for may be gone, so it is read before that; where a lease lets the
   * request in it is not, as a look at it costs something.
   */
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
  /** Left out, every request asks Redis. */
  leases?: LeaseBounds & {
    readonly clock: Pick<Clock, "monotonic" | "every">
    /** Whether this worker is within its lease as a member. */
    readonly isServing: () => boolean
    /** Web workers of the cluster, this one among them. */
    readonly workers: () => number
  }
  metrics?: Metrics
}

type FailedToken = "malformed" | "unknown" | "revoked" | "expired"
type LetIn = Extract<Admitted, { readonly verdict: "ok" }>

/**
 * Lets requests in. First it is known whose token it is: for a session that this worker keeps nobody is asked; else it costs one
 * command, shared by the requests of one turn of the event loop, and a look into the database where it is not cached. Then the global, the user's or address's, and the
 * route's bucket are asked, in one call of a script, unless a lease lets the request in (`Leases`).
 */
export function createAdmission(options: AdmissionOptions) {
  const { tokens, enabled, limits = defaultRateLimits, bypassSecret } = options
  const secret = bypassSecret === undefined ? undefined : digestOf(bypassSecret)
  const asking = createAsking(options, limits)

  function admitSession(session: AccessSession, request: AdmissionRequest): Admitted | Promise<Admitted> {
    const { fingerprint } = request
    if (fingerprint !== undefined && !isSameClient(session, fingerprint)) return asking.failed("revoked", request)
    const nowMs = Date.now()
    // The HTTP server says what bars the account; until then only the address has paid.
    if (barredUntil(session) * 1000 > nowMs) return asking.byAddress("barred", request, session)
    const admitted = isAdministrator(session.permissions ?? [])
      ? letIn(session, bypassFigures(nowMs))
      : asking.bySession(session, request)
    return tokens.isTouchDue(session) ? touched(session, admitted) : admitted
  }

  async function touched(session: AccessSession, admitted: Admitted | Promise<Admitted>): Promise<Admitted> {
    const answer = await admitted
    return answer.verdict === "ok" ? { ...answer, touch: await tokens.touch(session) } : answer
  }

  async function admitToken(presented: PresentedToken, request: AdmissionRequest): Promise<Admitted> {
    let found = await tokens.findCached(presented)
    if (found === undefined) {
      const refused = await asking.look(request)
      if (refused) return refused
      found = await tokens.findStored(presented)
    }
    return typeof found === "string" ? asking.failed(found, request) : admitSession(found, request)
  }

  /** No promise where nobody has to be asked. */
  function admitFreely(request: AdmissionRequest): AdmittedFreely | Promise<AdmittedFreely> {
    const { token } = request
    if (token === undefined) return { verdict: "ok", caller: undefined, touch: false, figures: undefined }
    if (token === null) return { verdict: "anonymous", figures: undefined }
    const presented = tokens.present(token)
    if (typeof presented === "string") return { verdict: presented, figures: undefined }
    const kept = tokens.kept(presented)
    return kept === undefined ? findFreely(presented, request) : letInFreely(kept, request)
  }

  const findFreely = async (presented: PresentedToken, request: AdmissionRequest): Promise<AdmittedFreely> =>
    letInFreely(await tokens.find(presented), request)

  function letInFreely(found: Judged, { fingerprint }: AdmissionRequest): AdmittedFreely | Promise<AdmittedFreely> {
    if (typeof found === "string") return { verdict: found, figures: undefined }
    if (fingerprint !== undefined && !isSameClient(found, fingerprint))
      return { verdict: "revoked", figures: undefined }
    const touch = tokens.touch(found)
    if (touch === false) return { verdict: "ok", caller: found, touch, figures: undefined }
    return touch.then(isDue => ({ verdict: "ok", caller: found, touch: isDue, figures: undefined }))
  }

  const knows = (bypass: string) => secret !== undefined && timingSafeEqual(digestOf(bypass), secret)
  const admitBypassing = async (request: AdmissionRequest): Promise<Admitted> => ({
    ...(await admitFreely(request)),
    figures: bypassFigures(Date.now()),
  })

  return {
    /** The bucket of a route's own, if it has one. */
    bucketFor(route: Pick<Route, "method" | "path" | "limit">): RouteBucket | undefined {
      if (route.limit === "none") return undefined
      const label = labelOf(route)
      const limit = limits.routes.get(label) ?? route.limit
      return limit && routeBucket(limit, label)
    },

    /** No promise where nobody has to be asked. */
    admit(request: AdmissionRequest): Admitted | Promise<Admitted> {
      if (!enabled) return admitFreely(request)
      if (request.bypass !== undefined && knows(request.bypass)) return admitBypassing(request)
      const { token } = request
      if (typeof token !== "string") return asking.byAddress(token === null ? "anonymous" : "ok", request)
      const presented = tokens.present(token)
      if (typeof presented === "string") return asking.failed(presented, request)
      const kept = tokens.kept(presented)
      if (kept === undefined) return admitToken(presented, withAddress(request))
      return typeof kept === "string" ? asking.failed(kept, request) : admitSession(kept, request)
    },

    /** Counts a token that failed elsewhere than at `admit`; true: there were too many from that address already. */
    isFailedTooOften: async (address: string): Promise<boolean> => enabled && (await asking.countFailed(address)) === 1,
  }
}

export type Admission = ReturnType<typeof createAdmission>

/** Asks the buckets, or the leases on them. */
function createAsking({ redis, keys, leases: leasing, metrics }: AdmissionOptions, { common }: RateLimits) {
  const buckets = openBuckets(redis, keys.bucket(""), common, leasing ? Leases.msInRedis(leasing) : 0)
  const leases =
    leasing && leasing.leaseTokens > 1 && leasing.leaseMs > 0 && isLent(common.global) && isLent(common.user)
      ? new Leases({
          bounds: leasing,
          ...leasing,
          capacity: Math.min(capacityOf(common.global), capacityOf(common.user)),
          ask: buckets.ask,
        })
      : undefined
  if (leases) {
    onNewReplication(redis, () => leases.drop()) // LEASE3
    metrics?.http.leasedRequests.from(() => leases.held)
  }

  async function askForAddress(kind: string, request: AdmissionRequest): Promise<BucketAnswer> {
    const question = questionOf(kind, request)
    if (!redis.isCluster || kind !== "ok" || request.bucket?.scope !== "webhook") return buckets.ask(question)
    // There the webhook's bucket is in another slot than its caller's.
    const answer = await buckets.ask({ ...question, kind: "caller" })
    if (answer.verdict !== "ok") return answer
    return buckets.ask({ ...question, kind: "webhook", caller: `webhook:${request.resource}` })
  }

  async function byAddress(kind: string, request: AdmissionRequest, barred?: AccessSession): Promise<Admitted> {
    const answer = await askForAddress(kind, request)
    const scope = scopeOf(answer, "ip", request)
    const figures = figuresOf(answer, scope, bucketName(answer, scope, `ip:${request.address}`, request))
    switch (answer.verdict) {
      case "ok":
      case "barred":
        metrics?.http.admitted.redis.inc()
        return { verdict: "ok", caller: barred, touch: false, figures }
      case "anonymous":
      case "malformed":
      case "unknown":
      case "revoked":
      case "expired":
      case "limited":
      case "failed":
        return { verdict: answer.verdict, figures }
      default:
        throw new Error(`admit.lua answered ${answer.verdict}`)
    }
  }

  async function askForSession(
    session: AccessSession,
    request: AdmissionRequest,
    lease: Lease | undefined,
  ): Promise<Admitted> {
    const answer = await (lease ? leases!.ask(lease) : buckets.ask(questionOf("ok", request, session)))
    if (!answer) return byLease(session, request, lease!, leasing!.clock.monotonic())
    const scope = scopeOf(answer, "user", request)
    const name = lease?.names[answer.bucket] ?? bucketName(answer, scope, `u:${session.user_id}`, request)
    if (lease) lease.names[answer.bucket] = name
    const figures = figuresOf(answer, scope, name)
    if (answer.verdict !== "ok") return { verdict: "limited", figures }
    metrics?.http.admitted.redis.inc()
    return letIn(session, figures)
  }

  /** What is told of a request that a lease has let in. */
  function byLease(session: AccessSession, request: AdmissionRequest, lease: Lease, now: number): LetIn {
    const said = lease.said!
    const passedMs = now - lease.askedAt
    const waitMs = Math.max(0, said.waitMs - passedMs)
    const scope = scopeOf(said, "user", request)
    metrics?.http.admitted.lease.inc()
    return letIn(session, {
      scope,
      limit: said.limit,
      remaining: said.remaining - (lease.count - lease.unspent),
      reset: (said.nowMs + passedMs + waitMs) / 1000,
      resetAfterSeconds: waitMs / 1000,
      bucket: (lease.names[said.bucket] ??= bucketName(said, scope, `u:${session.user_id}`, request)),
    })
  }

  return {
    byAddress,

    /** A token that is not good counts for its address. */
    failed: (why: FailedToken, request: AdmissionRequest) => byAddress(why, request),

    bySession(session: AccessSession, request: AdmissionRequest): Admitted | Promise<Admitted> {
      const { bucket } = request
      if (!leases || bucket?.isLent === false) return askForSession(session, request, undefined)
      const lease = leases.of(
        session.user_id,
        bucket ?? noBucket,
        limitPercent(session.tier, session.bot),
        bucket ? nameOf(bucket, request) : "",
        bucket?.scope === "ip" ? request.address : "",
      )
      if (!lease) return askForSession(session, request, undefined)
      const now = leasing!.clock.monotonic()
      return leases.spend(lease, now) ? byLease(session, request, lease, now) : askForSession(session, request, lease)
    },

    /** A session has to be loaded: the refusal where an address has brought too many tokens that failed. */
    async look(request: AdmissionRequest): Promise<Admitted | undefined> {
      const answer = await buckets.ask(questionOf("miss", request))
      if (answer.verdict === "miss") return undefined
      const name = bucketName(answer, "ip", `ip:${request.address}`, request)
      return { verdict: "failed", figures: figuresOf(answer, "ip", name) }
    },

    countFailed: buckets.countFailed,
  }
}

const noBucket = { text: "", capacity: Infinity }

const withAddress = ({ address, token, fingerprint, bucket, resource }: AdmissionRequest): AdmissionRequest => ({
  address,
  token,
  fingerprint,
  bucket,
  resource,
})

const letIn = (caller: AccessSession, figures: BucketFigures): LetIn => ({
  verdict: "ok",
  caller,
  touch: false,
  figures,
})

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

const questionOf = (kind: string, request: AdmissionRequest, session?: AccessSession): BucketQuestion => ({
  kind,
  caller: session ? `u:${session.user_id}` : `ip:${request.address}`,
  percent: session ? limitPercent(session.tier, session.bot) : 100,
  address: request.address,
  bucket: request.bucket?.text ?? "",
  name: request.bucket ? nameOf(request.bucket, request) : "",
  more: 0,
  share: 1,
  ended: "",
})

/** The rest of a bucket's name. */
const nameOf = (bucket: RouteBucket, request: AdmissionRequest) =>
  bucket.byResource ? `${bucket.name}:res:${request.resource}` : bucket.name

const scopeOf = ({ bucket }: BucketAnswer, own: "user" | "ip", request: AdmissionRequest): BucketFigures["scope"] =>
  bucket === 0 ? "global" : bucket === 1 ? own : request.bucket!.scope

/** What stands for a bucket. */
function bucketName(
  { bucket, verdict }: BucketAnswer,
  scope: BucketFigures["scope"],
  caller: string,
  request: AdmissionRequest,
): string {
  const name = verdict === "failed" ? ":failed" : bucket === 2 ? nameOf(request.bucket!, request) : ""
  const holder = scope === "ip" ? `ip:${request.address}` : scope === "webhook" ? "" : caller
  return hash("sha256", `${scope}:${holder}${name}`, "hex").slice(0, 16)
}

const figuresOf = (answer: BucketAnswer, scope: BucketFigures["scope"], bucket: string): BucketFigures => ({
  scope,
  limit: answer.limit,
  remaining: answer.remaining,
  reset: (answer.nowMs + answer.waitMs) / 1000,
  resetAfterSeconds: answer.waitMs / 1000,
  bucket,
})
