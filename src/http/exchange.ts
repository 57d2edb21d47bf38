import { randomUUID } from "node:crypto"
import { STATUS_CODES } from "node:http"
import type { HttpRequest, HttpResponse } from "uWebSockets.js"
import { withForwarded, type Address } from "../domain/client-address.ts"
import type { RouteMetrics } from "../observability/metrics.ts"
import { RequestBody, type BodyBounds } from "./request-body.ts"

const statusLines = new Map(
  Object.entries(STATUS_CODES).map(([code, phrase]) => [Number(code), `${code} ${phrase}`] as const),
)

const commonHeaders =
  "\r\nX-Content-Type-Options: nosniff\r\nX-XSS-Protection: 1; mode=block\r\nReferrer-Policy: strict-origin-when-cross-origin" +
  "\r\nX-Permitted-Cross-Domain-Policies: none\r\nVary: Origin"
/** Media may be shown inside of other pages. */
const framedElsewhere = "/api/v1/media/"
const headersOfMedia = `${commonHeaders}\r\nX-Request-Id: `
const headersOfOthers = `${commonHeaders}\r\nX-Frame-Options: SAMEORIGIN\r\nX-Request-Id: `

/** An id of the client's that may go into headers and logs as it is. */
const saneRequestId = /^[A-Za-z0-9._-]{8,64}$/

/** What an exchange needs of its door. */
export interface ExchangeSurroundings {
  readonly inFlight: { inc(): void; dec(): void }
  /** The door closes: every answer ends its connection. */
  readonly closing: boolean
}

/**
 * One request and its answer. uWebSockets.js ends the process when a handler leaves a response without an answer and
 * without an abort handler, and throws when a response is touched after it was answered or aborted. So:
 *   E1  The constructor listens for the abort and reads the request; nothing of `req` is kept.
 *   E2  Only `reply` and `replyLong` write, one of them once, corked, and not after an abort.
 */
export class Exchange {
  readonly res: HttpResponse
  readonly metrics: RouteMetrics
  readonly startedAt = performance.now()
  /** When it is refused if it has no answer. */
  dueAt = Infinity
  readonly isHead: boolean
  readonly url: string
  readonly queryText: string
  /** Values of the path's parameters as they were sent. */
  readonly path: string[] = []

  authorization: string | undefined
  repeatedAuthorization = false
  contentLength: string | undefined
  contentType: string | undefined
  repeatedContentLength = false
  origin: string | undefined
  forwardedFor: string | undefined
  /** The client's, once the door has looked. */
  address: Address = new Uint8Array(4)
  userAgent = ""
  idempotencyKey: string | undefined
  auditReason: string | undefined
  rateLimitBypass: string | undefined
  ifNoneMatch: string | undefined
  /** Two of them are one that nobody has. */
  accessToken: string | undefined
  preflightMethod: string | undefined
  preflightHeaders = ""
  requestId = ""

  body: RequestBody | undefined
  /** Header lines that were decided on the way, each beginning with CRLF. */
  headers = ""
  #surroundings: ExchangeSurroundings
  #over = false
  #isFinished = false
  #sent: (() => void) | undefined

  constructor(
    res: HttpResponse,
    req: HttpRequest,
    parameters: number,
    metrics: RouteMetrics,
    surroundings: ExchangeSurroundings,
  ) {
    this.res = res
    res.onAborted(() => this.#abort())
    this.metrics = metrics
    this.#surroundings = surroundings
    surroundings.inFlight.inc()
    this.isHead = req.getMethod() === "head"
    this.url = req.getUrl()
    this.queryText = req.getQuery() ?? "" // undefined without a question mark, whatever its type says
    for (let i = 0; i < parameters; i++) this.path.push(req.getParameter(i))
    req.forEach((name, value) => this.#readHeader(name, value))
    if (this.requestId === "") this.requestId = randomUUID()
  }

  get over(): boolean {
    return this.#over
  }

  get elapsedMs(): number {
    return performance.now() - this.startedAt
  }

  /** `holder`: whose it is as long as nobody knows better. */
  listenToBody(bounds: Omit<BodyBounds, "startedAt" | "holder">, holder: string): RequestBody {
    this.body = new RequestBody({ ...bounds, holder, startedAt: this.startedAt })
    this.body.listen(this.res, Number(this.contentLength ?? 0))
    return this.body
  }

  /** `length`: of the content, where a HEAD is answered without having it. */
  reply(status: number, contentType: string, content: string | Uint8Array, length = Buffer.byteLength(content)): void {
    if (this.#over) return
    this.#finish(status)
    const { res } = this
    const close = this.#closes
    res.cork(() => {
      if (status !== 200) res.writeStatus(statusLines.get(status) ?? String(status))
      this.#writeHeaders(contentType)
      if (status === 304 || this.isHead) {
        // `endWithoutBody(length)` would leave the connection waiting for a body, so the length is a header here.
        if (status !== 304) res.writeHeader("Content-Length", String(length))
        if (close) res.writeHeader("Connection", "close")
        res.endWithoutBody()
      } else res.end(content, close)
    })
  }

  /** Content of which uWebSockets.js shall copy no more than the connection takes at a time. Resolves once all is sent, or never will be. */
  replyLong(contentType: string, content: Uint8Array): Promise<void> {
    if (this.#over) return Promise.resolve()
    this.#over = true
    const { res } = this
    return new Promise(resolve => {
      this.#sent = resolve
      const go = (offset: number): boolean => {
        const [ok, isWhole] = res.tryEnd(content.subarray(offset), content.length)
        if (isWhole) this.#finish(200)
        return ok
      }
      res.onWritable(go)
      res.cork(() => {
        this.#writeHeaders(contentType)
        if (this.#closes) res.writeHeader("Connection", "close")
        go(0)
      })
    })
  }

  /** Ends the connection of a client that takes too long to read. */
  cutOff(): void {
    if (this.isSending) this.res.close()
  }

  /** What `replyLong` wrote is still on its way. */
  get isSending(): boolean {
    return this.#over && !this.#isFinished
  }

  /** A body that is still on its way would be read as the next request's beginning if its sender gave up. */
  get #closes(): boolean {
    return this.#surroundings.closing || (this.body !== undefined && !this.body.complete) || this.repeatedContentLength
  }

  /** All header lines in one call: each costs as much as the whole of them. None holds what a client chose beyond its own request id and a listed origin. */
  #writeHeaders(contentType: string): void {
    const fixed = this.url.startsWith(framedElsewhere) ? headersOfMedia : headersOfOthers
    this.res.writeHeader("Content-Type", contentType + fixed + this.requestId + this.headers)
  }

  #abort(): void {
    if (this.#isFinished) return
    this.#finish(0)
    this.body?.abandon()
  }

  #finish(status: number): void {
    this.#over = true
    this.#isFinished = true
    this.#sent?.()
    this.#surroundings.inFlight.dec()
    this.metrics.observe(status, this.elapsedMs / 1000)
  }

  #readHeader(name: string, value: string): void {
    switch (name) {
      case "authorization":
        if (this.authorization !== undefined) this.repeatedAuthorization = true
        this.authorization = value
        break
      case "content-length":
        if (this.contentLength !== undefined) this.repeatedContentLength = true
        this.contentLength = value
        break
      case "content-type":
        this.contentType = value
        break
      case "origin":
        this.origin = value
        break
      case "x-forwarded-for":
        this.forwardedFor = withForwarded(this.forwardedFor, value)
        break
      case "x-ratelimit-bypass":
        this.rateLimitBypass = value
        break
      case "x-request-id":
        if (saneRequestId.test(value)) this.requestId = value
        break
      case "user-agent":
        this.userAgent = value
        break
      case "idempotency-key":
        this.idempotencyKey = value
        break
      case "x-audit-log-reason":
        this.auditReason = value
        break
      case "x-api-access-token":
        this.accessToken = this.accessToken === undefined ? value : `${this.accessToken},${value}`
        break
      case "if-none-match":
        this.ifNoneMatch = value
        break
      case "access-control-request-method":
        this.preflightMethod = value
        break
      case "access-control-request-headers":
        this.preflightHeaders = value
        break
      default:
    }
  }
}
