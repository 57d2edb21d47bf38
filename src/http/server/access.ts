import type { Admission, AdmissionRequest, Admitted, Caller, RouteBucket } from "../../cluster/admission.ts"
import { isSameClient, clientFingerprint, type Tokens } from "../../cluster/tokens.ts"
import { errors, fail, type ErrorCode, type Failure } from "../../contract/core/errors.ts"
import type { Route } from "../../contract/core/registry.ts"
import type { PlacedUse } from "../../domain/service/access-uses.ts"
import { barTo, isAdministrator } from "../../domain/accounts/accounts.ts"
import type { Address } from "../../domain/core/client-address.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Log } from "../../observability/log.ts"
import type { Metrics } from "../../observability/metrics.ts"
import { createAccessGate, type AccessGateOptions } from "./access-gate.ts"
import type { Exchange } from "./exchange.ts"
import { waitMessage } from "./failures.ts"
import { rateLimitHeaders } from "./rate-limit-headers.ts"
import { hasSeveralTokens, tokenIn } from "./request-headers.ts"
import { resourceOf } from "./validation.ts"

/** `any`: whether there are any. */
export interface BlockedAddresses {
  any(): boolean
  has(address: Address): boolean
}

/** What decides whether a request is let in. */
export interface AccessOptions {
  readonly admission: Admission
  readonly tokens: Pick<Tokens, "present" | "find">
  /** A token is good only for the client that signed in with it. */
  readonly tokenBinding: boolean
  /** What applications present, where an operator asks for that, and who hears of each use. */
  readonly gate: Pick<AccessGateOptions, "accessTokens" | "noteUse">
  readonly blocked: BlockedAddresses
  /** `RATE_LIMITS=on`: requests count for addresses, too. */
  readonly isLimiting: boolean
  /** Whether bounds on what one address has under way leave it out. */
  readonly isUnlimited: (address: Address) => boolean
  /** Addresses and CIDR ranges whose `X-Forwarded-For` is believed. */
  readonly trustedProxies: readonly string[]
  /**
   * The refusal of every request that can wait for the end of maintenance; undefined: there is
   * none.
   */
  readonly maintenance: () => Failure | undefined
  /** What the same requests wait for while it is not known what PostgreSQL has. The body is read before. */
  readonly hold?: () => Promise<void> | undefined
  /** Whether the query of a link to this file is signed, so that its holder needs no token. */
  readonly isSignedLink: (file: string, query: URLSearchParams) => boolean
  /** A session was used. */
  readonly noteSessionUse: (caller: Caller) => void
}

/** As the use of an access token names it; nulls: none. */
export type GatedRoute = Pick<PlacedUse, "method" | "path">
const noRoute: GatedRoute = { method: null, path: null }

interface Surroundings {
  readonly log: Log
  readonly metrics: Pick<Metrics, "http">
  /** Unix milliseconds. */
  readonly clock: () => number
}

class Asking implements AdmissionRequest {
  readonly #exchange: Exchange
  readonly #isLimiting: boolean
  readonly token: string | null | undefined
  readonly fingerprint: string | undefined
  readonly bucket: RouteBucket | undefined

  constructor(
    exchange: Exchange,
    isLimiting: boolean,
    token: string | null | undefined,
    fingerprint: string | undefined,
    bucket: RouteBucket | undefined,
  ) {
    this.#exchange = exchange
    this.#isLimiting = isLimiting
    this.token = token
    this.fingerprint = fingerprint
    this.bucket = bucket
  }

  get address(): string {
    return this.#isLimiting ? this.#exchange.client.limited : ""
  }

  get resource(): string {
    return this.bucket?.byResource ? resourceOf(this.bucket.scope, this.#exchange.path) : ""
  }

  get bypass(): string | undefined {
    return this.#exchange.rateLimitBypass
  }
}

/** Lets requests in, or throws their refusal. */
export function createAccess(options: AccessOptions, { log, metrics, clock }: Surroundings) {
  const { admission, tokens } = options
  const gate = createAccessGate({ ...options.gate, clock, log })

  const fingerprintOf = (exchange: Exchange): string | undefined =>
    options.tokenBinding ? clientFingerprint(exchange.client.text, exchange.userAgent) : undefined

  const ask = (
    exchange: Exchange,
    token?: string | null,
    { bucket }: { readonly bucket?: RouteBucket | undefined } = {},
  ): Admitted | Promise<Admitted> =>
    admission.admit(
      new Asking(
        exchange,
        options.isLimiting,
        token,
        typeof token === "string" ? fingerprintOf(exchange) : undefined,
        bucket,
      ),
    )

  /**
   * @returns the caller of a route that asks for a token. The headers of the answer tell about the
   * limits either way
   */
  function judge(exchange: Exchange, admitted: Admitted, route?: Route): Caller | undefined {
    exchange.isLimited = admitted.figures !== undefined && admitted.figures.scope !== "bypass"
    if (admitted.figures !== undefined)
      exchange.headers += rateLimitHeaders(admitted.figures, admitted.verdict === "limited")
    switch (admitted.verdict) {
      case "ok":
        if (admitted.caller && route) requireAccount(admitted.caller, route)
        if (admitted.touch && admitted.caller) options.noteSessionUse(admitted.caller)
        return admitted.caller
      case "limited": {
        const { scope, resetAfterSeconds } = admitted.figures
        metrics.http.refused.of(scope).inc()
        throw fail("rate_limited", {
          retry_after: resetAfterSeconds,
          extra: { global: scope === "global", scope },
          ...(route?.tag === "Reactions" && { message: waitMessage(resetAfterSeconds) }),
        })
      }
      case "failed":
        metrics.http.refused.of("failed_tokens").inc()
        throw fail("too_many_failed_tokens", { retry_after: admitted.figures.resetAfterSeconds })
      case "anonymous":
        if (route?.failsWithoutToken && exchange.authorization === undefined) throw fail(route.failsWithoutToken)
        throw fail(hasSeveralTokens(exchange) ? "multiple_authorization" : "authentication_required", messageFor(route))
      default:
        throw fail(tokenErrors[admitted.verdict], messageFor(route))
    }
  }

  /** What a route asks of an account beyond its token. */
  function requireAccount(caller: Caller, route: Route): void {
    const bar = barTo(caller, secondsAt(clock()))
    if (bar && !(bar.code === "username_change_required" && route.isForRenaming))
      throw fail(bar.code, { extra: { reason: bar.reason } })
    if (route.auth === "person" && caller.bot) throw fail("people_only")
    if (route.auth === "administrator" && !isAdministrator(caller.permissions)) throw fail("administrator_only")
  }

  /** A request that counts for its address alone, and in a bucket of its own if it has one. */
  async function admit(exchange: Exchange, bucket?: RouteBucket): Promise<void> {
    judge(exchange, await ask(exchange, undefined, { bucket }))
  }

  return {
    ask,
    judge,
    admit,
    bucketFor: admission.bucketFor,

    /** No access token is asked for. */
    get isOpen(): boolean {
      return gate.isOpen
    },

    /**
     * A request without the access token that this server asks for is refused, and counts against
     * its address.
     */
    async requireAccessToken(exchange: Exchange, route: GatedRoute = noRoute): Promise<void> {
      const refusal = gate.refusalOf(exchange, route)
      if (refusal === undefined) return
      await admit(exchange)
      throw fail(refusal)
    },

    /** Whether a signed link opens this route, so that no token is needed. */
    isOpenedByLink: (route: Route, { path: [file], queryText }: Exchange): boolean =>
      route.auth === "signed" && options.isSignedLink(file!, new URLSearchParams(queryText)),

    /**
     * Where nobody has to say who they are, a request is let in whatever token comes with it. With a
     * good token it counts for its user, not for the address.
     */
    async goodToken(exchange: Exchange, route: Route): Promise<string | undefined> {
      const token = tokenIn(exchange, route)
      if (typeof token !== "string") return undefined
      const presented = tokens.present(token)
      if (typeof presented === "string") return undefined
      // Before the wait, in which the client may go away.
      const fingerprint = fingerprintOf(exchange)
      const session = await tokens.find(presented)
      if (typeof session !== "object" || barTo(session, secondsAt(clock()))) return undefined
      return fingerprint === undefined || isSameClient(session, fingerprint) ? token : undefined
    },
  }
}

export type Access = ReturnType<typeof createAccess>

/** Administrators' routes have one message for every refusal of a token. */
const messageFor = (route: Route | undefined) =>
  route?.auth === "administrator" ? { message: errors.administrator_only.message } : undefined

const tokenErrors = {
  malformed: "invalid_token",
  unknown: "unknown_token_type",
  revoked: "revoked_token",
  expired: "expired_token",
} as const satisfies Record<string, ErrorCode>
