import { createHash } from "node:crypto"
import { Agent as PlainAgent, request as requestPlainly, type IncomingMessage } from "node:http"
import { Agent as SafeAgent, request as requestSafely } from "node:https"
import { setTimeout as sleep } from "node:timers/promises"
import type { Readable } from "node:stream"
import aws4 from "aws4"
import { Failure, unavailable } from "../../contract/core/errors.ts"
import type { BucketPlace } from "../../domain/core/file-places.ts"
import type { Metrics } from "../../observability/metrics.ts"
import { textOf } from "./xml-text.ts"

/**
 * Requests to an object store. They keep:
 *   STORE1  Each ends: without progress after `idleMs`, and altogether after what its bytes take at
 *       `minBytesPerSecond`. What is sent again because it failed early ends in that time, too.
 *   STORE2  What is sent again changes nothing when it is done twice, or is looked after by who sends it.
 *   STORE3  A store that is down, slow or of another opinion is the refusal "unavailable" to clients,
 *       and a line in the log when that begins and when it is over.
 */

/** Two thirds of the time within which a client has an answer. */
const idleMs = 3_000
const minBytesPerSecond = 512 * 1024
/** What has failed by then is sent again. */
const repeatedWithinMs = 1_000
const pausesMs = [50, 150, 400]
/** So much of what a store says about an error is read. */
const maxTextBytes = 4 * 1024 * 1024
/** A store that joins parts keeps its client waiting with spaces. */
const maxTextMs = 60_000
/** Connections that nobody uses and that are kept for the next. */
const keptConnections = 32

/** Bytes that can be sent again. */
export interface Sendable {
  readonly size: number
  /** In hex. The store refuses other bytes. */
  readonly sha256: string
  open(): Readable | Uint8Array
}

export const sendable = (bytes: Uint8Array | string): Sendable => ({
  size: Buffer.byteLength(bytes),
  sha256: createHash("sha256").update(bytes).digest("hex"),
  open: () => (typeof bytes === "string" ? Buffer.from(bytes) : bytes),
})
const nothing = sendable("")

export interface Call {
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE"
  /** A key, or the bucket itself. */
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Sendable
  /** The statuses that are an answer; any other is trouble. */
  readonly expects: readonly number[]
  /** Doing it twice is doing it once. */
  readonly isRepeatable: boolean
  readonly idleMs?: number
  readonly signal?: AbortSignal
}

/** Its body is read or destroyed by who called. */
type Answer = IncomingMessage & { readonly statusCode: number }

/**
 * The store was asked and did not do it. `lasting`: asking again is of no use. `stale`: it had closed a
 * kept connection before it read the request, as far as can be told, so anything may be sent again.
 */
class Trouble extends Error {
  readonly kind: "transient" | "stale" | "lasting"

  constructor(message: string, kind: Trouble["kind"] = "transient", options?: ErrorOptions) {
    super(message, options)
    this.kind = kind
  }
}

export interface BucketObservers {
  readonly log?: { warn(fields: object, what: string): void; info(fields: object, what: string): void } | undefined
  readonly metrics?: Pick<Metrics, "files"> | undefined
}

export class BucketRequests {
  readonly place: BucketPlace
  readonly #log: BucketObservers["log"]
  readonly #metrics: Metrics["files"] | undefined
  readonly #agent: PlainAgent
  readonly #request: typeof requestPlainly
  readonly #credentials: aws4.Credentials
  readonly #host: string
  #isTroubled = false

  constructor(place: BucketPlace, { log, metrics }: BucketObservers = {}) {
    this.place = place
    this.#log = log
    this.#metrics = metrics?.files
    const isPlain = place.origin.startsWith("http:")
    // As many as there are readers and writers, whose number the server bounds: one that waits for
    // a free connection would wait for a stranger's slow download.
    this.#agent = new (isPlain ? PlainAgent : SafeAgent)({ keepAlive: true, maxFreeSockets: keptConnections })
    this.#request = isPlain ? requestPlainly : requestSafely
    const { accessKeyId, secretAccessKey } = place
    this.#credentials = { accessKeyId, secretAccessKey }
    this.#host = new URL(place.origin).host
  }

  /** The answer's head. Throws "unavailable" when there is none. */
  async send(call: Call): Promise<Answer> {
    const startedAt = performance.now()
    for (let attempt = 0; ; attempt++)
      try {
        const answer = await this.#sendOnce(call)
        if (answer.statusCode === 404 && call.method !== "HEAD") await requireBucket(answer)
        this.#note(undefined)
        this.#count(metrics => metrics.requests[answer.statusCode === 404 ? "missing" : "done"].inc())
        this.#count(metrics => metrics.seconds.observe((performance.now() - startedAt) / 1000))
        return answer
      } catch (error) {
        call.signal?.throwIfAborted()
        const kind = error instanceof Trouble ? error.kind : "transient"
        const pauseMs = pausesMs[attempt]
        const isLate = performance.now() - startedAt > repeatedWithinMs
        if (kind !== "lasting" && (call.isRepeatable || kind === "stale") && !isLate && pauseMs !== undefined) {
          this.#count(metrics => metrics.requests.repeated.inc())
          await sleep(pauseMs)
          continue
        }
        this.#count(metrics => metrics.requests[kind === "lasting" ? "refused" : "failed"].inc())
        this.#note(error as Error)
        throw refusal(error)
      }
  }

  /** The same, with all that the answer says. */
  async ask(call: Call): Promise<{ status: number; headers: IncomingMessage["headers"]; text: string }> {
    const answer = await this.send(call)
    try {
      const isRead = answer.statusCode === 404 && call.method !== "HEAD"
      return { status: answer.statusCode, headers: answer.headers, text: isRead ? "" : await readText(answer) }
    } catch (error) {
      this.#note(error as Error)
      throw refusal(error)
    }
  }

  /** An address at which anybody may read a key for so many seconds. The signature covers all of it. */
  signedUrl(path: string, query: Readonly<Record<string, string>>, seconds: number): string {
    const { publicOrigin } = this.place
    const signed = this.#signed({
      host: new URL(publicOrigin).host,
      method: "GET",
      path: pathWith(path, { ...query, "X-Amz-Expires": String(seconds) }),
      signQuery: true,
    })
    return publicOrigin + signed.path!
  }

  /** Bytes that were read of answers. */
  noteRead(bytes: number): void {
    this.#count(metrics => metrics.bytes.read.inc(bytes))
  }

  close(): void {
    this.#agent.destroy()
  }

  #count(write: (metrics: Metrics["files"]) => void): void {
    if (this.#metrics) write(this.#metrics)
  }

  #signed(request: aws4.Request): aws4.Request {
    return aws4.sign({ ...request, service: "s3", region: this.place.region }, this.#credentials)
  }

  #sendOnce(call: Call): Promise<Answer> {
    const { method, path, query = {}, headers = {}, body = nothing } = call
    const signed = this.#signed({
      host: this.#host,
      method,
      path: pathWith(path, query),
      headers: {
        ...headers,
        "X-Amz-Content-Sha256": body.sha256,
        ...(body !== nothing && { "Content-Length": body.size }),
      },
    })
    return new Promise<Answer>((resolve, reject) => {
      const { host: _, ...options } = signed
      const request = this.#request(this.place.origin, { ...options, agent: this.#agent })
      const late = (what: string) => () => request.destroy(new Trouble(`the store ${what}`))
      const idle = setTimeout(late("made no progress"), call.idleMs ?? idleMs)
      const over = setTimeout(late("took too long"), (call.idleMs ?? idleMs) + (body.size / minBytesPerSecond) * 1000)
      const abort = () => request.destroy(call.signal!.reason as Error)
      if (call.signal?.aborted) abort()
      call.signal?.addEventListener("abort", abort, { once: true })
      const content = body.open()
      const source = content instanceof Uint8Array ? undefined : content
      const settled = () => {
        clearTimeout(idle)
        clearTimeout(over)
        call.signal?.removeEventListener("abort", abort)
      }
      request.on("error", (error: NodeJS.ErrnoException) => {
        settled()
        source?.destroy()
        const kind = request.reusedSocket && error.code === "ECONNRESET" ? "stale" : "transient"
        const message = error.message || "the connection failed"
        reject(error instanceof Trouble ? error : new Trouble(message, kind, { cause: error }))
      })
      request.on("response", response => {
        settled()
        // It may break while nobody reads: the reader is told by its next read.
        response.on("error", () => {})
        if (call.expects.includes(response.statusCode!)) {
          if (body !== nothing) this.#count(metrics => metrics.bytes.written.inc(body.size))
          resolve(response as Answer)
        } else troubleOf(response).then(reject, reject)
      })
      if (!source) {
        request.end(content)
        return
      }
      source.on("error", error => request.destroy(error))
      source.on("data", () => idle.refresh())
      source.pipe(request)
    })
  }

  /** STORE3 */
  #note(trouble: Error | undefined): void {
    if (this.#isTroubled === (trouble !== undefined)) return
    this.#isTroubled = trouble !== undefined
    this.#count(metrics => metrics.troubles.inc(trouble ? 1 : -1))
    const store = this.place.origin
    if (trouble) this.#log?.warn({ store, err: trouble }, "the file store does not do what it is asked for")
    else this.#log?.info({ store }, "the file store answers again")
  }
}

function pathWith(path: string, query: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(query).map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
  return pairs.length === 0 ? path : `${path}?${pairs.join("&")}`
}

/** What a client is told; the operator finds the cause in the log. */
export const refusal = (error: unknown): Error =>
  error instanceof Failure ? error : unavailable("the file store does not answer", 2, { cause: error })

async function troubleOf(response: IncomingMessage): Promise<Trouble> {
  const status = response.statusCode!
  const said = await readText(response).catch(() => "")
  const code = textOf(said, "Code") ?? ""
  // The store ran out of something, or of time for this connection.
  const isTransient = status >= 500 || status === 429 || code === "RequestTimeout"
  const message = `the store answered ${status} ${code} ${textOf(said, "Message") ?? ""}`.trim()
  return new Trouble(message, isTransient ? "transient" : "lasting")
}

/** A key that is not there is an answer; a bucket that is not there is none about its keys. */
async function requireBucket(answer: IncomingMessage): Promise<void> {
  if (textOf(await readText(answer), "Code") === "NoSuchBucket")
    throw new Trouble("the store has no such bucket", "lasting")
}

/** All that an answer says, in time. */
async function readText(answer: IncomingMessage): Promise<string> {
  const stop = () => answer.destroy(new Trouble("the store stopped in the middle"))
  const timer = setTimeout(stop, idleMs)
  const over = setTimeout(stop, maxTextMs)
  const pieces: Buffer[] = []
  let bytes = 0
  try {
    for await (const piece of answer as AsyncIterable<Buffer>) {
      timer.refresh()
      bytes += piece.length
      if (bytes > maxTextBytes) throw new Trouble("the store says too much", "lasting")
      pieces.push(piece)
    }
  } finally {
    clearTimeout(timer)
    clearTimeout(over)
    answer.destroy()
  }
  return Buffer.concat(pieces).toString()
}

/** The next `length` bytes of an answer; fewer only where it ends. */
export async function readBytes(answer: IncomingMessage, length: number): Promise<Buffer<ArrayBuffer>> {
  const bytes = Buffer.allocUnsafeSlow(length)
  let filled = 0
  while (filled < length) {
    const piece = answer.read(Math.min(length - filled, answer.readableLength)) as Buffer | null
    if (piece) filled += piece.copy(bytes, filled)
    else if (answer.readableEnded || answer.destroyed) break
    else await readable(answer)
  }
  return bytes.subarray(0, filled)
}

function readable(answer: IncomingMessage): Promise<void> {
  const events = ["readable", "end", "close"] as const
  return new Promise((resolve, reject) => {
    const settle = (end: () => void) => () => {
      clearTimeout(timer)
      for (const event of events) answer.off(event, go)
      end()
    }
    const go = settle(resolve)
    const timer = setTimeout(
      settle(() => reject(new Trouble("the store stopped in the middle"))),
      idleMs,
    )
    for (const event of events) answer.on(event, go)
  })
}
