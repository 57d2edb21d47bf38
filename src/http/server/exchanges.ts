import type { HttpRequest, HttpResponse } from "uWebSockets.js"
import { fail, unavailable } from "../../contract/core/errors.ts"
import { addressOf, clientAddress, trustedProxies, type Address } from "../../domain/core/client-address.ts"
import { loggedPath } from "../../domain/messages/webhooks.ts"
import type { Log } from "../../observability/log.ts"
import type { Metrics, RouteMetrics } from "../../observability/metrics.ts"
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
  readonly log: Log
  readonly metrics: Pick<Metrics, "http">
}

const sweepEveryMs = 200

/**
 * The exchanges that are under way. It opens them, refuses those that fail or take too long, and on
 * closing waits for the rest.
 */
export class Exchanges implements ExchangeSurroundings {
  readonly #options: ExchangesOptions
  readonly #proxies: ReturnType<typeof trustedProxies>
  readonly #bodies = new Set<RequestBody | StreamedBody>()
  readonly #answering = new Set<Exchange>()
  readonly #sweep: NodeJS.Timeout
  #count = 0
  #whenIdle: (() => void) | undefined
  #closing = false

  constructor(options: ExchangesOptions) {
    this.#options = options
    this.#proxies = trustedProxies(options.trustedProxies)
    this.#sweep = setInterval(() => this.#refuseOverdue(), sweepEveryMs)
    this.#sweep.unref()
  }

  get closing(): boolean {
    return this.#closing
  }

  begun(): void {
    this.#count++
    this.#options.metrics.http.inFlight.inc()
  }

  finished(): void {
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
      if (exchange.origin !== undefined) exchange.headers = this.#options.cors.headersFor(exchange.origin)
      exchange.address = this.#addressOf(exchange)
      if (this.#options.isBlocked(exchange.address)) throw fail("address_blocked")
      if (exchange.repeatedContentLength) throw fail("repeated_header")
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
    clearInterval(this.#sweep)
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

  #refuseOverdue(): void {
    const now = performance.now()
    for (const body of this.#bodies)
      if (body.settled) this.#bodies.delete(body)
      else if (body.isOverdue(now)) body.expire()
    // Each step on the way to an answer has a deadline, but there may be several steps.
    for (const exchange of this.#answering)
      if (exchange.dueAt < now)
        if (exchange.isSending) exchange.cutOff()
        else this.#refuse(exchange, unavailable("no answer in time"))
  }

  #addressOf(exchange: Exchange): Address {
    const peer = addressOf(new Uint8Array(exchange.res.getRemoteAddress()))
    return exchange.forwardedFor === undefined ? peer : clientAddress(peer, exchange.forwardedFor, this.#proxies)
  }
}
