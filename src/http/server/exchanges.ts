import type { HttpRequest, HttpResponse } from "uWebSockets.js"
import { fail, unavailable, type Failure } from "../../contract/core/errors.ts"
import { AddressBudget } from "../../domain/core/address-budget.ts"
import {
  addressOf,
  clientAddress,
  limitedAddress,
  trustedProxies,
  type Address,
} from "../../domain/core/client-address.ts"
import { loggedPath } from "../../domain/messages/webhooks.ts"
import type { Log } from "../../observability/log.ts"
import type { Metrics, RouteMetrics } from "../../observability/metrics.ts"
import { SweepWhileAny } from "../../std/sweep-while-any.ts"
import { systemClock as clock } from "../../std/system-clock.ts"
import type { Cors } from "./cors.ts"
import { Exchange, json, type ExchangeSurroundings } from "./exchange.ts"
import { failureReply, isBug, toFailure } from "./failures.ts"
import type { RequestBody } from "./request-body.ts"
import type { StreamedBody } from "./streamed-body.ts"

export interface ExchangesOptions {
  readonly isBlocked: (address: Address) => boolean
  /** Addresses and CIDR ranges whose `X-Forwarded-For` is believed. */
  readonly trustedProxies: readonly string[]
  readonly cors: Cors
  /** Requests of one address that are under way at once. */
  readonly requestsPerAddress: number
  /** Whether that bound leaves an address out. */
  readonly isUnlimited: (address: Address) => boolean
  readonly log: Log
  readonly metrics: Pick<Metrics, "http">
}

/** So late at most is it noticed that a body or an answer is overdue. */
const sweepEveryMs = 200

/** Why it is not certain where a request ends: a proxy in front may see its end elsewhere. */
function ambiguityOf({ repeatedContentLength, transferEncoding }: Exchange): Failure | undefined {
  if (repeatedContentLength) return fail("repeated_header")
  if (transferEncoding === undefined || transferEncoding.trim().toLowerCase() === "chunked") return undefined
  return fail("bad_request", { message: "Transfer-Encoding must be chunked" })
}

/**
 * The exchanges that are under way. It opens them, refuses those that fail or take too long, and on
 * closing waits for the rest.
 */
export class Exchanges implements ExchangeSurroundings {
  readonly #options: ExchangesOptions
  readonly #proxies: ReturnType<typeof trustedProxies>
  readonly #bodies = new Set<RequestBody | StreamedBody>()
  readonly #answering = new Set<Exchange>()
  readonly #sweeper: SweepWhileAny
  readonly #ofAddresses: AddressBudget
  #count = 0
  #whenIdle: (() => void) | undefined
  #closing = false

  constructor(options: ExchangesOptions) {
    this.#options = options
    this.#proxies = trustedProxies(options.trustedProxies)
    this.#ofAddresses = new AddressBudget(Infinity, options.requestsPerAddress)
    this.#sweeper = new SweepWhileAny(clock, sweepEveryMs, () => this.#refuseOverdue())
  }

  get closing(): boolean {
    return this.#closing
  }

  begun(): void {
    this.#count++
    this.#options.metrics.http.inFlight.inc()
  }

  finished(holder: string | undefined): void {
    if (holder !== undefined) this.#ofAddresses.give(holder, 1)
    this.#count--
    this.#options.metrics.http.inFlight.dec()
    if (this.#count === 0) this.#whenIdle?.()
  }

  /**
   * Begins an exchange without waiting for its end. Nothing that fails later is thrown at
   * uWebSockets.js.
   */
  open(
    { res, req, parameters = 0 }: { res: HttpResponse; req: HttpRequest; parameters?: number },
    observed: RouteMetrics,
    answer: (exchange: Exchange) => void | Promise<void>,
  ): void {
    const exchange = new Exchange(res, req, parameters, observed, this)
    try {
      const ambiguity = ambiguityOf(exchange)
      if (ambiguity) return this.#cut(exchange, ambiguity)
      if (exchange.origin !== undefined) exchange.headers = this.#options.cors.headersFor(exchange.origin)
      exchange.address = this.#addressOf(exchange)
      if (this.#options.isBlocked(exchange.address)) throw fail("address_blocked")
      this.#countAddress(exchange)
      const answered = answer(exchange)
      if (answered) answered.catch((error: unknown) => this.#refuse(exchange, error))
    } catch (error) {
      this.#refuse(exchange, error)
    }
  }

  /** From now on the exchange has a deadline, and so has its body. */
  watch(exchange: Exchange, body: RequestBody | StreamedBody | undefined): void {
    if (body && !body.settled) this.#bodies.add(body)
    this.#answering.add(exchange)
    this.#sweeper.begin()
  }

  unwatch(exchange: Exchange): void {
    this.#answering.delete(exchange)
  }

  /** Nothing more of the body is waited for. */
  unwatchBody(body: RequestBody | StreamedBody): void {
    this.#bodies.delete(body)
  }

  /**
   * From now on every answer ends its connection, so that clients reach another worker with their
   * next request.
   */
  beginDrain(): void {
    this.#closing = true
  }

  /** Waits for the answers under way. */
  async close(): Promise<void> {
    this.beginDrain()
    if (this.#count > 0) await new Promise<void>(resolve => (this.#whenIdle = resolve))
    this.#sweeper.stop()
  }

  /** One that is refused here takes no place, so that its answer gives none back. */
  #countAddress(exchange: Exchange): void {
    const { isUnlimited, metrics } = this.#options
    if (isUnlimited(exchange.address)) return
    const holder = limitedAddress(exchange.address)
    if (this.#ofAddresses.take(holder, 1)) {
      exchange.holder = holder
      return
    }
    metrics.http.overload.requests.inc()
    throw fail("rate_limited", { retry_after: 1, extra: { global: false, scope: "ip" } })
  }

  #cut(exchange: Exchange, failure: Failure): void {
    const { status, body } = failureReply(failure, exchange.requestId)
    // What uWebSockets.js takes for the next request is mostly none: it says so itself, with a 400 of
    // its own.
    if (exchange.isUnknownCoding) exchange.reply(status, json, JSON.stringify(body))
    else exchange.replyAndCut(status, json, JSON.stringify(body))
  }

  #refuse(exchange: Exchange, error: unknown): void {
    const failure = toFailure(error)
    if (isBug(failure))
      this.#options.log.error(
        { err: failure.cause, request_id: exchange.requestId, path: loggedPath(exchange.url) },
        "request failed",
      )
    const { status, body, headers } = failureReply(failure, exchange.requestId)
    exchange.headers += headers
    exchange.reply(status, json, JSON.stringify(body))
  }

  #refuseOverdue(): boolean {
    const now = performance.now()
    for (const body of this.#bodies)
      if (body.settled) this.#bodies.delete(body)
      else if (body.isOverdue(now)) body.expire()
    // Each step on the way to an answer has a deadline, but there may be several steps.
    for (const exchange of this.#answering)
      if (exchange.dueAt < now)
        if (exchange.isSending) exchange.cutOff()
        else this.#refuse(exchange, unavailable("no answer in time"))
    return this.#bodies.size > 0 || this.#answering.size > 0
  }

  #addressOf(exchange: Exchange): Address {
    const peer = addressOf(new Uint8Array(exchange.res.getRemoteAddress()))
    return exchange.forwardedFor === undefined ? peer : clientAddress(peer, exchange.forwardedFor, this.#proxies)
  }
}
