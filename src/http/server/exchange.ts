import { STATUS_CODES } from "node:http"
import type { HttpRequest, HttpResponse } from "uWebSockets.js"
import type { Failure } from "../../contract/core/errors.ts"
import { withForwarded, type Address } from "../../domain/core/client-address.ts"
import type { RouteMetrics } from "../../observability/metrics.ts"
import type { Span } from "../../observability/traces.ts"
import type { TurnBudget } from "../../std/turn-budget.ts"
import { wireText } from "../../std/wire-text.ts"
import type { Client, Clients } from "./clients.ts"
import { RequestBody, type BodyBounds } from "./request-body.ts"
import { createRequestIds } from "./request-ids.ts"
import { StreamedBody, type StreamBounds } from "./streamed-body.ts"

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
const newRequestId = createRequestIds()

export const json = "application/json"

/** uWebSockets.js gathers so much of what is written within one handler. */
const corkBytes = 16 * 1024

function parametersOf(req: HttpRequest, count: number): string[] {
  const values: string[] = []
  for (let i = 0; i < count; i++) values.push(req.getParameter(i))
  return values
}

const hasNoBody = (contentLength: string | undefined): boolean => contentLength === undefined || contentLength === "0"

/** What is in memory of a file for one reader. */
export const maxPieceBytes = 128 * 1024

/** What an exchange needs of its server. */
export interface ExchangeSurroundings {
  readonly clients: Clients
  begun(): void
  finished(exchange: Exchange): void
  /** The server closes: every answer ends its connection. */
  readonly closing: boolean
}

/**
 * One request and its answer. uWebSockets.js ends the process when a handler leaves a response
 * without an answer and without an abort handler, and throws when a response is touched after it
 * was answered or aborted. So:
 *   EXCH1  The constructor listens for the abort and reads the request; nothing of `req` is kept.
 *   EXCH2  Only `reply`, `replyAndCut`, `replyLong` and `replyPieces` write, one of them once, corked, and not
 *          after an abort.
 */
export class Exchange {
  readonly res: HttpResponse
  readonly metrics: RouteMetrics
  readonly startedAt = performance.now()
  /** When it is refused if it has no answer. */
  dueAt = Infinity
  /** It was too late: whatever its handler says then, this is the answer. */
  late: Failure | undefined
  /** The step that it is at; named when it has no answer in time. */
  step: "admission" | "body" | "handler" = "admission"
  readonly isHead: boolean
  readonly url: string
  readonly queryText: string
  /** Values of the path's parameters as they were sent. */
  readonly path: string[]

  authorization: string | undefined
  repeatedAuthorization = false
  contentLength: string | undefined
  contentType: string | undefined
  repeatedContentLength = false
  /** All of that name, joined. */
  transferEncoding: string | undefined
  /** uWebSockets.js takes such a request for one without a body. */
  isUnknownCoding = false
  origin: string | undefined
  traceparent: string | undefined
  /** Of its own, if it is traced. */
  span: Span | undefined
  forwardedFor: string | undefined
  /** Others name the client in these headers; all lines of each. */
  realIp: string | undefined
  forwarded: string | undefined
  /** For whom it counts while it is under way, if it was counted. */
  holder: string | undefined
  /** Among those that are under way; -1: it is none of them. */
  place = -1
  userAgent = ""
  idempotencyKey: string | undefined
  auditReason: string | undefined
  rateLimitBypass: string | undefined
  /** Rate limits hold for the caller. */
  isLimited = false
  ifNoneMatch: string | undefined
  range: string | undefined
  ifRange: string | undefined
  acceptEncoding: string | undefined
  /** Two of them are one that nobody has. */
  accessToken: string | undefined
  preflightMethod: string | undefined
  preflightHeaders = ""
  requestId = ""

  body: RequestBody | StreamedBody | undefined
  /** Header lines that were decided on the way, each beginning with CRLF. */
  headers = ""
  readonly #surroundings: ExchangeSurroundings
  #client: Client | undefined
  #over = false
  #isFinished = false
  /** A body that nobody wants is on its way. */
  #isDropping = false
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
    surroundings.begun()
    this.isHead = req.getMethod() === "head"
    this.url = req.getUrl()
    this.queryText = req.getQuery() ?? "" // undefined without a question mark, whatever its type says
    this.path = parameters === 0 ? [] : parametersOf(req, parameters)
    req.forEach((name, value) => this.#readHeader(name, value))
    if (this.requestId === "") this.requestId = newRequestId()
    if (this.transferEncoding !== undefined || !hasNoBody(this.contentLength)) this.#dropBody()
  }

  /**
   * Until somebody listens to a body it passes by: an answer that goes out before it has ended ends
   * the connection, and what still comes is not read.
   */
  #dropBody(): void {
    this.#isDropping = true
    this.res.onData((_, isLast) => {
      if (isLast) this.#isDropping = false
    })
  }

  get over(): boolean {
    return this.#over
  }

  /** It costs a system call, so it is looked up when somebody asks for the first time: before the exchange is over. */
  get client(): Client {
    return (this.#client ??= this.#surroundings.clients.of(this.res, this.forwardedFor))
  }

  /** The other end of the socket, before the exchange is over. */
  get peer(): Address {
    return this.#surroundings.clients.peer(this.res)
  }

  get elapsedMs(): number {
    return performance.now() - this.startedAt
  }

  addHeaders(headers: Readonly<Record<string, string>>): void {
    for (const [name, value] of Object.entries(headers)) this.headers += `\r\n${name}: ${value}`
  }

  /** `holder`: who is charged for it until more is known. */
  listenToBody(bounds: BodyBounds, holder: string): RequestBody {
    return this.#listen(new RequestBody(bounds, this.startedAt, holder))
  }

  /** The same, of a body that is read while it comes. */
  listenToStream(bounds: Omit<StreamBounds, "startedAt" | "holder">, holder: string): StreamedBody {
    return this.#listen(new StreamedBody({ ...bounds, holder, startedAt: this.startedAt }))
  }

  #listen<Body extends RequestBody | StreamedBody>(body: Body): Body {
    this.body = body
    this.#isDropping = false
    body.listen(this.res, Number(this.contentLength ?? 0))
    return body
  }

  /** `length`: of the content, where a HEAD is answered without having it. */
  reply(status: number, contentType: string, content: string | Uint8Array, length = Buffer.byteLength(content)): void {
    if (this.#over) return
    if (!this.#isDropping) return this.#answer(status, contentType, content, length)
    // A body that came with its head has passed by after this turn: then its connection can stay.
    this.#over = true
    setImmediate(() => {
      if (!this.#isFinished) this.#answer(status, contentType, content, length)
    })
  }

  #answer(status: number, contentType: string, content: string | Uint8Array, length: number): void {
    this.#finish(status)
    const { res } = this
    const close = this.#closes
    res.cork(() => {
      if (status !== 200) res.writeStatus(statusLines.get(status) ?? String(status))
      this.#writeHeaders(contentType)
      if (status === 204 || status === 304 || this.isHead) {
        // `endWithoutBody(length)` would leave the connection waiting for a body, so the length is
        // a header here.
        if (this.isHead && status !== 304) res.writeHeader("Content-Length", String(length))
        if (close) res.writeHeader("Connection", "close")
        res.endWithoutBody()
      } else res.end(wireText(content), close)
    })
  }

  /**
   * Answers a request of which nobody can say where it ends, and ends the connection: nothing behind
   * it may be taken for another request. uWebSockets.js goes on reading what has come with a request
   * that is answered at once, and closes without the answer if it is answered later. So the answer
   * goes out now, but for its last byte: a request that follows finds this one unanswered, which
   * ends the connection. The padding brings the answer past the buffer that would be lost with it.
   */
  replyAndCut(status: number, contentType: string, content: string): void {
    if (this.#over) return
    this.#over = true
    const { res } = this
    const whole = Buffer.from(content + " ".repeat(corkBytes))
    res.writeStatus(statusLines.get(status) ?? String(status))
    this.#writeHeaders(contentType)
    res.writeHeader("Connection", "close")
    res.tryEnd(whole.subarray(0, -1), whole.length)
    setImmediate(() => {
      if (this.#isFinished) return
      this.#finish(status)
      res.close()
    })
  }

  /**
   * Content that is in memory, a piece at a time: uWebSockets.js copies no more than the connection takes, and however many
   * are answered at once, a turn of the event loop hands over no more than `turns` allows. Resolves once all is sent, or never will be.
   * @param sent is told how much that is
   */
  replyLong(
    status: number,
    contentType: string,
    content: Uint8Array,
    { sent, turns }: { sent: (bytes: number) => void; turns: TurnBudget },
  ): Promise<void> {
    if (this.#over) return Promise.resolve()
    this.#over = true
    const { res } = this
    let at = 0
    const sendPiece = () => {
      const from = at
      const [ok, isWhole] = res.tryEnd(content.subarray(from, from + maxPieceBytes), content.length)
      if (isWhole) {
        sent(content.length)
        this.#finish(status)
        return content.length - from
      }
      at = res.getWriteOffset()
      sent(at)
      // Otherwise it goes on when the connection has taken what it holds.
      if (ok) turns.do(next)
      return at - from
    }
    const next = () => {
      let bytes = 0
      if (!this.#isFinished) res.cork(() => (bytes = sendPiece()))
      return bytes
    }
    res.onWritable(offset => {
      at = offset
      turns.do(next)
      return true
    })
    return new Promise(resolve => {
      this.#sent = resolve
      turns.do(() => {
        let bytes = 0
        if (this.#isFinished) return bytes
        res.cork(() => {
          if (status !== 200) res.writeStatus(statusLines.get(status) ?? String(status))
          this.#writeHeaders(contentType)
          if (this.#closes) res.writeHeader("Connection", "close")
          bytes = sendPiece()
        })
        return bytes
      })
    })
  }

  /**
   * Content that is read while it is sent: the next piece when the connection has taken the one
   * before. Resolves once all is sent, or never will be; rejects when a piece cannot be read, and
   * ends the connection, since its length is told already.
   * @param sent is told how much that is; `turns`: as of `replyLong`
   */
  async replyPieces(
    status: number,
    contentType: string,
    { size, read }: { size: number; read: (from: number, length: number) => Promise<Uint8Array> },
    { sent, turns }: { sent: (bytes: number) => void; turns: TurnBudget },
  ): Promise<void> {
    if (this.#over) return
    this.#over = true
    const { res } = this
    let piece: Uint8Array = new Uint8Array(0)
    let at = 0
    let wake: (() => void) | undefined
    this.#sent = () => wake?.()
    const send = (offset: number): boolean => {
      const [ok, isWhole] = res.tryEnd(piece.subarray(offset - at), size)
      if (isWhole) this.#finish(status)
      return ok
    }
    res.onWritable(offset => {
      // The next piece is still being read.
      if (offset === at + piece.length) return true
      const ok = send(offset)
      if (ok) wake?.()
      return ok
    })
    for (let begun = false; !this.#isFinished; begun = true) {
      let next: Uint8Array
      try {
        next = await read(at + piece.length, Math.min(maxPieceBytes, size - at - piece.length))
        if (next.length === 0) throw new Error("the content is shorter than it was")
      } catch (error) {
        if (!this.#isFinished) res.close()
        throw error
      }
      await turns.turn(next.length)
      if (this.#isFinished) return
      at += piece.length
      piece = next
      let ok = false
      res.cork(() => {
        if (!begun) {
          if (status !== 200) res.writeStatus(statusLines.get(status)!)
          this.#writeHeaders(contentType)
          if (this.#closes) res.writeHeader("Connection", "close")
        }
        ok = send(at)
      })
      sent(at)
      if (!ok && !this.#isFinished) await new Promise<void>(resolve => (wake = resolve))
      wake = undefined
    }
  }

  /** Ends the connection of a client that takes too long to read. */
  cutOff(): void {
    if (this.isSending) this.res.close()
  }

  /** What `replyLong` or `replyPieces` wrote is still on its way. */
  get isSending(): boolean {
    return this.#over && !this.#isFinished
  }

  /**
   * A body that is still on its way would be read as the next request's beginning if its sender
   * gave up.
   */
  get #closes(): boolean {
    const isBodyUnderWay = this.#isDropping || (this.body !== undefined && !this.body.complete)
    return isBodyUnderWay || this.isUnknownCoding || this.#surroundings.closing
  }

  /**
   * All header lines in one call: each costs as much as the whole of them. None holds what a client
   * chose beyond its own request id and a listed origin.
   */
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
    this.#surroundings.finished(this)
    this.metrics.observe(status, this.elapsedMs / 1000)
    this.span?.end(performance.now(), { "http.response.status_code": status }, status >= 500)
  }

  #readHeader(name: string, value: string): void {
    switch (name) {
      case "authorization":
        if (this.authorization !== undefined) this.repeatedAuthorization = true
        this.authorization = value
        break
      case "traceparent":
        this.traceparent = value
        break
      case "content-length":
        if (this.contentLength !== undefined) this.repeatedContentLength = true
        this.contentLength = value
        break
      case "transfer-encoding":
        this.isUnknownCoding ||= this.transferEncoding === undefined && !/chunked\s*$/i.test(value)
        this.transferEncoding = this.transferEncoding === undefined ? value : `${this.transferEncoding},${value}`
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
      case "x-real-ip":
        this.realIp = withForwarded(this.realIp, value)
        break
      case "forwarded":
        this.forwarded = withForwarded(this.forwarded, value)
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
      case "range":
        this.range = value
        break
      case "if-range":
        this.ifRange = value
        break
      case "accept-encoding":
        this.acceptEncoding = value
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
