import type { HttpResponse } from "uWebSockets.js"
import { fail, unavailable, type Failure } from "../../contract/core/errors.ts"
import { withinMs, maxDrainedBytes } from "./request-body.ts"
import type { ByteBudget } from "../../std/byte-budget.ts"

export interface StreamBounds {
  /** Bytes of the whole body. */
  readonly maxBytes: number
  /** What a larger one is refused with, of so many bytes. */
  readonly tooLarge: (bytes: number) => Failure
  /** Milliseconds on the clock of `performance.now`. */
  readonly startedAt: number
  /** Milliseconds that any body may take, and bytes a second beyond that. */
  readonly timeoutMs: number
  readonly minBytesPerSecond: number
  /** Milliseconds in which something more of it has to come. */
  readonly idleTimeoutMs: number
  /** What bodies hold in memory together. */
  readonly budget: ByteBudget
  /** How many of them there may be at once, of all and of one user. */
  readonly slots: ByteBudget
  /** Whose it is until `belongTo` says more. */
  readonly holder: string
}

/**
 * A body that is read while it comes: as long as nobody reads, its connection is told to wait. It
 * keeps:
 *   BODY1  Memory holds no more than one read of the connection.
 *   BODY2  The response is not touched after it is answered or the client has gone.
 */
export class StreamedBody {
  readonly #bounds: StreamBounds
  readonly #ended: (() => void)[] = []
  #res: HttpResponse | undefined
  #pieces: Buffer[] = []
  #bytes = 0
  #announced = 0
  #holder: string
  /** Bytes of the budget: those that wait, and those that were handed over last. */
  #held = 0
  #handedOver = 0
  #hasSlot = false
  #lastAt: number
  #isPaused = false
  #complete = false
  #failure: Failure | undefined
  #wake: (() => void) | undefined
  #drained: (() => void) | undefined

  constructor(bounds: StreamBounds) {
    this.#bounds = bounds
    this.#holder = bounds.holder
    this.#lastAt = bounds.startedAt
  }

  /** Every byte is in. A reply that goes out before has to end the connection. */
  get complete(): boolean {
    return this.#complete
  }

  /** Nothing more is awaited. */
  get settled(): boolean {
    return this.#complete || this.#failure !== undefined
  }

  /** See `RequestBody`. */
  readonly isCharged = true

  /** The size that its sender announced; 0: not announced. */
  get announced(): number {
    return this.#announced
  }

  /** A sender that was told to wait is not late. */
  isOverdue(now: number): boolean {
    const { startedAt, timeoutMs, minBytesPerSecond, idleTimeoutMs } = this.#bounds
    if (this.#isPaused) return false
    return (
      now > Math.min(startedAt + timeoutMs + (this.#bytes / minBytesPerSecond) * 1000, this.#lastAt + idleTimeoutMs)
    )
  }

  listen(res: HttpResponse, announcedBytes: number): void {
    this.#res = res
    this.#announced = announcedBytes
    if (announcedBytes > this.#bounds.maxBytes) this.#end(this.#bounds.tooLarge(announcedBytes))
    res.onData((chunk, isLast) => this.#take(chunk, isLast))
  }

  /** Calls back once nothing more is awaited. */
  onEnd(ended: () => void): void {
    if (this.settled) ended()
    else this.#ended.push(ended)
  }

  expire(): void {
    this.#end(fail("request_timeout"))
  }

  /** The client is gone. */
  abandon(): void {
    this.#res = undefined // BODY2
    this.#end(fail("bad_request"))
    this.#drained?.()
  }

  /** See `RequestBody`. */
  async drained(): Promise<void> {
    if (this.#complete || !this.#res || this.#announced > maxDrainedBytes) return
    this.#end(fail("bad_request"))
    await withinMs(this.#bounds.idleTimeoutMs, done => {
      this.#drained = done
    })
  }

  /** Its holder is known: what it holds counts for them, and it takes one of their slots. */
  belongTo(holder: string): void {
    const { budget, slots } = this.#bounds
    const had = this.#held
    this.#giveBack()
    this.#holder = holder
    if (this.#failure) return
    this.#hasSlot = slots.take(holder, 1)
    if (this.#hasSlot && budget.take(holder, had)) this.#held = had
    else this.#refuse()
  }

  /** It is answered. */
  release(): void {
    this.#res = undefined // BODY2
    if (!this.settled) this.#end(fail("bad_request"))
    this.#pieces = []
    this.#giveBack()
  }

  /** The next piece; undefined when there are no more. */
  async next(): Promise<Buffer | undefined> {
    // The previous piece is no longer used.
    this.#give(this.#handedOver)
    this.#handedOver = 0
    for (;;) {
      if (this.#failure) throw this.#failure
      const piece = this.#pieces.shift()
      if (piece) {
        this.#handedOver = piece.length
        return piece
      }
      if (this.#complete) return undefined
      this.#resume()
      await new Promise<void>(resolve => (this.#wake = resolve))
    }
  }

  #take(chunk: ArrayBuffer, isLast: boolean): void {
    const { maxBytes, tooLarge } = this.#bounds
    this.#bytes += chunk.byteLength
    this.#lastAt = performance.now()
    if (this.#bytes > maxBytes) this.#end(tooLarge(this.#bytes))
    else if (!this.#failure) this.#hold(chunk.byteLength)
    if (isLast) this.#complete = true
    if (this.#failure) {
      if (isLast || this.#bytes > maxBytes + maxDrainedBytes) this.#drained?.()
      return
    }
    // The chunk is taken back when this returns.
    if (chunk.byteLength > 0) this.#pieces.push(Buffer.from(new Uint8Array(chunk)))
    const isAwaited = this.#wake !== undefined
    this.#wake?.()
    this.#wake = undefined
    if (isLast) this.#tellEnd()
    else if (!isAwaited) this.#pause()
  }

  #pause(): void {
    if (this.#isPaused || !this.#res) return
    this.#isPaused = true
    this.#res.pause() // BODY1
  }

  #resume(): void {
    if (!this.#isPaused || !this.#res) return
    this.#isPaused = false
    this.#lastAt = performance.now()
    this.#res.resume()
  }

  #hold(bytes: number): void {
    if (this.#bounds.budget.take(this.#holder, bytes)) this.#held += bytes
    else this.#end(tooMany())
  }

  #give(bytes: number): void {
    const given = Math.min(bytes, this.#held)
    this.#bounds.budget.give(this.#holder, given)
    this.#held -= given
  }

  #giveBack(): void {
    this.#give(this.#held)
    if (this.#hasSlot) this.#bounds.slots.give(this.#holder, 1)
    this.#hasSlot = false
  }

  /** Although all of it may have come: nobody has looked at it yet. */
  #refuse(): void {
    if (this.#complete) {
      this.#failure ??= tooMany()
      this.#pieces = []
      this.#giveBack()
    } else this.#end(tooMany())
  }

  /** What failed holds nothing, and what still comes passes by. */
  #end(failure: Failure): void {
    if (this.settled) return
    this.#failure = failure
    this.#pieces = []
    this.#giveBack()
    this.#resume()
    this.#wake?.()
    this.#wake = undefined
    this.#tellEnd()
  }

  #tellEnd(): void {
    for (const ended of this.#ended.splice(0)) ended()
  }
}

const tooMany = () => unavailable("too many uploads at once")
