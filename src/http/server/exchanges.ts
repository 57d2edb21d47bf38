import type { HttpRequest, HttpResponse } from "uWebSockets.js"
import { fail, unavailable, type Failure } from "../../contract/core/errors.ts"
import { AddressBudget } from "../../domain/core/address-budget.ts"
import type { Address } from "../../domain/core/client-address.ts"
import { loggedPath } from "../../domain/messages/webhooks.ts"
import type { Log } from "../../observability/log.ts"
import type { Metrics, RouteMetrics } from "../../observability/metrics.ts"
import { SweepWhileAny } from "../../std/sweep-while-any.ts"
import { systemClock as clock } from "../../std/system-clock.ts"
import type { BlockedAddresses } from "./access.ts"
import { Clients } from "./clients.ts"
import type { Cors } from "./cors.ts"
import { Exchange, json, type ExchangeSurroundings } from "./exchange.ts"
import { failureReply, isBug, toFailure } from "./failures.ts"

export interface ExchangesOptions {
  readonly blocked: BlockedAddresses
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
  readonly clients: Clients
  readonly #options: ExchangesOptions
  /** In no order. */
  readonly #underWay: Exchange[] = []
  readonly #sweeper: SweepWhileAny
  readonly #ofAddresses: AddressBudget
  /** No address can have too many under way while all together have fewer: until then they are not counted. */
  #isCounting = false
  #count = 0
  #whenIdle: (() => void) | undefined
  #closing = false

  constructor(options: ExchangesOptions) {
    this.#options = options
    this.clients = new Clients(options.trustedProxies)
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

  finished(exchange: Exchange): void {
    if (exchange.holder !== undefined) this.#ofAddresses.give(exchange.holder, 1)
    if (exchange.place >= 0) this.#takeOut(exchange)
    this.#count--
    this.#options.metrics.http.inFlight.dec()
    if (this.#count === 0) this.#whenIdle?.()
  }

  /**
   * Begins an exchange; undefined: it is refused already. Nothing that fails later may be thrown at
   * uWebSockets.js: it goes to `refuse`.
   */
  open(res: HttpResponse, req: HttpRequest, observed: RouteMetrics, parameters = 0): Exchange | undefined {
    const exchange = new Exchange(res, req, parameters, observed, this)
    const { blocked, cors } = this.#options
    try {
      const ambiguity = ambiguityOf(exchange)
      if (ambiguity) {
        this.#cut(exchange, ambiguity)
        return undefined
      }
      if (exchange.origin !== undefined) exchange.headers = cors.headersFor(exchange.origin)
      if (blocked.any() && blocked.has(exchange.client.address)) throw fail("address_blocked")
      this.#requirePlace(exchange)
      exchange.place = this.#underWay.push(exchange) - 1
      this.#sweeper.begin()
      return exchange
    } catch (error) {
      this.refuse(exchange, error)
      return undefined
    }
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
  #requirePlace(exchange: Exchange): void {
    const { requestsPerAddress, metrics } = this.#options
    if (this.#underWay.length < requestsPerAddress / 2) this.#isCounting = false
    else if (this.#underWay.length >= requestsPerAddress && !this.#isCounting) {
      this.#isCounting = true
      // They are no more than one address may have.
      for (const other of this.#underWay) if (other.holder === undefined) this.#countAddress(other)
    }
    if (!this.#isCounting || this.#countAddress(exchange)) return
    metrics.http.overload.requests.inc()
    throw fail("rate_limited", { retry_after: 1, extra: { global: false, scope: "ip" } })
  }

  /** Whether its address has a place for it. */
  #countAddress(exchange: Exchange): boolean {
    const { address, limited } = exchange.client
    if (this.#options.isUnlimited(address)) return true
    if (!this.#ofAddresses.take(limited, 1)) return false
    exchange.holder = limited
    return true
  }

  #takeOut(exchange: Exchange): void {
    const last = this.#underWay.pop()!
    if (last !== exchange) {
      this.#underWay[exchange.place] = last
      last.place = exchange.place
    }
    exchange.place = -1
  }

  #cut(exchange: Exchange, failure: Failure): void {
    const { status, body } = failureReply(failure, exchange.requestId)
    // What uWebSockets.js takes for the next request is mostly none: it says so itself, with a 400 of
    // its own.
    if (exchange.isUnknownCoding) exchange.reply(status, json, JSON.stringify(body))
    else exchange.replyAndCut(status, json, JSON.stringify(body))
  }

  /** Answers what failed. */
  refuse(exchange: Exchange, error: unknown): void {
    const failure = exchange.late ?? toFailure(error)
    if (isBug(failure))
      this.#options.log.error(
        { err: failure.cause, request_id: exchange.requestId, path: loggedPath(exchange.url) },
        "request failed",
      )
    const { status, body, headers } = failureReply(failure, exchange.requestId)
    exchange.headers += headers
    exchange.reply(status, json, JSON.stringify(body))
  }

  /** Who still writes is told when they have stopped, as they would not read it before. */
  #refuseLate(exchange: Exchange, late: Failure): void {
    const { body } = exchange
    if (!body || body.settled) return this.refuse(exchange, late)
    exchange.late = late
    exchange.dueAt = Infinity
    const refuse = () => this.refuse(exchange, late)
    body.drained().then(refuse, refuse)
  }

  #refuseOverdue(): boolean {
    const now = performance.now()
    let [late, count]: [object | undefined, number] = [undefined, 0]
    // From the end: one that is answered is replaced by the last.
    for (let i = this.#underWay.length - 1; i >= 0; i--) {
      const exchange = this.#underWay[i]!
      const { body } = exchange
      if (body && !body.settled && body.isOverdue(now)) body.expire()
      // Each step on the way to an answer has a deadline, but there may be several steps.
      if (exchange.dueAt < now)
        if (exchange.isSending) exchange.cutOff()
        else {
          const { step, requestId, startedAt } = exchange
          late ??= { step, request_id: requestId, path: loggedPath(exchange.url), took_ms: Math.round(now - startedAt) }
          count++
          this.#refuseLate(exchange, unavailable(`no answer in time: ${step}`))
        }
    }
    // One line for all that are late at once.
    if (late) this.#options.log.warn({ ...late, count }, "no answer in time")
    return this.#underWay.length > 0
  }
}
