import { isUtf8 } from "node:buffer"
import type { HttpResponse } from "uWebSockets.js"
import { fail, type ErrorCode } from "../contract/errors.ts"

/**
 * A request's body on its way in. Most arrive with their head and are read without a promise; the rest is waited for,
 * up to `limit` bytes and until `expire`.
 */
export class RequestBody {
  readonly startedAt: number
  #limit: number
  #chunks: Buffer[] | undefined
  #bytes = 0
  #complete = false
  #text: string | undefined
  #failure: ErrorCode | undefined
  #wake: (() => void) | undefined

  constructor(limit: number, startedAt: number) {
    this.#limit = limit
    this.startedAt = startedAt
  }

  /** Every byte is in. A reply that goes out before has to end the connection. */
  get complete(): boolean {
    return this.#complete
  }

  /** Nothing more is awaited. */
  get settled(): boolean {
    return this.#complete || this.#failure !== undefined
  }

  listen(res: HttpResponse, announcedBytes: number): void {
    if (announcedBytes > this.#limit) this.#end("payload_too_large")
    res.onData((chunk, isLast) => this.#take(chunk, isLast))
  }

  expire(): void {
    this.#end("request_timeout")
  }

  /** The client is gone. */
  abandon(): void {
    this.#end("bad_request")
  }

  /** The text, undefined when there is none. */
  async text(): Promise<string | undefined> {
    if (!this.settled) await new Promise<void>(resolve => (this.#wake = resolve))
    if (this.#failure) throw fail(this.#failure)
    return this.#text
  }

  #take(chunk: ArrayBuffer, isLast: boolean): void {
    this.#bytes += chunk.byteLength
    if (this.#bytes > this.#limit) this.#end("payload_too_large")
    if (this.#failure) {
      if (isLast) this.#complete = true
      return
    }
    if (!isLast) {
      // The chunk is taken back when this returns.
      ;(this.#chunks ??= []).push(Buffer.from(new Uint8Array(chunk)))
      return
    }
    const last = Buffer.from(chunk)
    const whole = this.#chunks ? Buffer.concat([...this.#chunks, last]) : last
    this.#complete = true
    if (whole.length === 0) return this.#end()
    if (!isUtf8(whole)) return this.#end("bad_request")
    this.#text = whole.toString("utf8")
    this.#end()
  }

  #end(failure?: ErrorCode): void {
    this.#failure ??= failure
    this.#chunks = undefined
    this.#wake?.()
    this.#wake = undefined
  }
}
