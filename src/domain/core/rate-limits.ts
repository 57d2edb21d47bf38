import {
  commonRateLimits,
  routeRateLimits,
  type RateCap,
  type RateLimit,
  type RateLimits,
} from "../../contract/core/limits.ts"

/** An operator's configuration of one bucket. Omitted fields keep their defaults. */
export interface RateLimitOverride {
  readonly requests: number
  readonly seconds: number
  readonly burst?: number | undefined
  readonly algorithm?: RateLimit["algorithm"] | undefined
  readonly caps?: readonly RateCap[] | undefined
}

/** A limit for a route that has none by default. */
const unlisted = { burst: 0, algorithm: "sliding", scope: "route" } as const

/** A sliding window is a list of moments, and each request looks through it. */
const maxSlidingRequests = 10_000

const isCommon = (label: string): label is keyof RateLimits["common"] => Object.hasOwn(commonRateLimits, label)

/**
 * The defaults with an operator's changes. `labels`: of every route that may have a limit. Or all
 * that is wrong with them.
 */
export function rateLimitsWith(
  overrides: Readonly<Record<string, RateLimitOverride>>,
  labels: ReadonlySet<string>,
): RateLimits | { readonly problems: readonly string[] } {
  const problems: string[] = []
  const common: Record<keyof RateLimits["common"], RateLimit> = { ...commonRateLimits }
  const routes = new Map(routeRateLimits)
  for (const [label, override] of Object.entries(overrides)) {
    const before = isCommon(label) ? commonRateLimits[label] : (routeRateLimits.get(label) ?? unlisted)
    const limit = changed(before, override)
    const wrong =
      isCommon(label) || routeRateLimits.has(label) || labels.has(label) ? problemOf(limit) : "no such bucket"
    if (wrong !== undefined) problems.push(`${label}: ${wrong}`)
    else if (isCommon(label)) common[label] = limit
    else routes.set(label, limit)
  }
  return problems.length > 0 ? { problems } : { common, routes }
}

function changed(before: Omit<RateLimit, "requests" | "seconds">, override: RateLimitOverride): RateLimit {
  const caps = override.caps ?? before.caps ?? []
  return {
    requests: override.requests,
    seconds: override.seconds,
    burst: override.burst ?? before.burst,
    algorithm: override.algorithm ?? before.algorithm,
    scope: before.scope,
    ...(caps.length > 0 && { caps }),
  }
}

function problemOf({ algorithm, requests, burst, caps = [] }: RateLimit): string | undefined {
  if (algorithm === "sliding" && requests + burst > maxSlidingRequests)
    return `a sliding window holds at most ${maxSlidingRequests} requests; take another algorithm`
  if (new Set(caps.map(({ seconds }) => seconds)).size < caps.length) return "two caps of the same length"
  return undefined
}

/** Paths whose requests nobody counts: state of the service and its documentation. */
export const isUncounted = (path: string): boolean => uncounted.test(path)
const uncounted =
  /^(?:\/|(?:\/api\/v1)?\/(?:health|status)|\/(?:livez|readyz|openapi\.json|asyncapi\.json)|\/(?:docs|redoc).*)$/
