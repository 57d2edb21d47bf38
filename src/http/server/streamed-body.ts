import type { HttpResponse } from "uWebSockets.js"
import { fail, unavailable, type Failure } from "../../contract/core/errors.ts"
import type { ByteBudget } from "../../std/byte-budget.ts"
import { bufferBytes, type Inflow, type Source } from "./inflow.ts"
import { withinMs, maxDrainedBytes } from "./request-body.ts"

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
  /** What bodies hold in memory together before anybody reads them. */
  readonly budget: ByteBudget
  /** What they pass through then. */
  readonly inflow: Inflow
  /** How many long ones there may be at once, of all and of one user. */
  readonly slots: ByteBudget
  /** Whose it is until `belongTo` says more. */
  readonly holder: string
}

/** Bytes that wait for their reader, after which their connection waits. A body of no more is short. */
const maxWaitingBytes = 128 * 1024

/** Bytes that came, in a buffer that others use after them or in one of their own. */
interface Piece {
  bytes: Buffer
  readonly buffer: Buffer | undefined
}

/**
 * A body that is read while it comes. It keeps:
 *   BODY1  Its connection waits until somebody reads it. Then it brings the next piece while the one
 *          before is looked at, if a buffer is free (FLOW1).
 *   BODY2  The response is not touched after it is answered or the client has gone.
 */
export class StreamedBody implements Source {
  readonly #bounds: StreamBounds
  readonly #ended: (() => void)[] = []
  #res: HttpResponse | undefined
  #pieces: Piece[] = []
  #handedOver: Piece | undefined
  #waitingBytes = 0
  #bytes = 0
  #announced = 0
  #holder: string
  /** Bytes of the budget. */
  #held = 0
  #hasSlot = false
  #lastAt: number
  #isRead = false
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
    if (!this.settled) this.pause() // BODY1
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

  /**
   * Its holder is known: what it holds counts for them. Unless it is short, or has come, it takes
   * one of their slots until all of it is read.
   */
  belongTo(holder: string): void {
    const { budget, slots } = this.#bounds
    const had = this.#held
    this.#giveBack()
    this.#holder = holder
    if (this.#failure) return
    const isShort = this.#complete || (this.#announced > 0 && this.#announced <= maxWaitingBytes)
    this.#hasSlot = !isShort && slots.take(holder, 1)
    if ((isShort || this.#hasSlot) && budget.take(holder, had)) this.#held = had
    else this.#refuse()
  }

  /** It is answered. */
  release(): void {
    this.#res = undefined // BODY2
    if (!this.settled) this.#end(fail("bad_request"))
    this.#bounds.inflow.leave(this)
    this.#drop()
    // Who has the last piece may still be writing it.
    if (this.#handedOver?.buffer) this.#bounds.inflow.giveBack()
    this.#handedOver = undefined
    this.#giveBack()
  }

  /** The next piece, until the one after it is asked for; undefined when there are no more. */
  async next(): Promise<Buffer | undefined> {
    this.#isRead = true
    this.#recycle(this.#handedOver)
    this.#handedOver = undefined
    for (;;) {
      if (this.#failure) throw this.#failure
      const piece = this.#pieces.shift()
      if (piece) {
        this.#handedOver = piece
        this.#waitingBytes -= piece.bytes.length
      }
      if (!this.#complete && this.#waitingBytes < maxWaitingBytes) this.#bounds.inflow.open(this)
      if (piece) return piece.bytes
      if (this.#complete) {
        this.#giveSlotBack()
        return undefined
      }
      await new Promise<void>(resolve => (this.#wake = resolve))
    }
  }

  #take(chunk: ArrayBuffer, isLast: boolean): void {
    const { maxBytes, tooLarge, inflow } = this.#bounds
    this.#bytes += chunk.byteLength
    this.#lastAt = performance.now()
    if (this.#bytes > maxBytes) this.#end(tooLarge(this.#bytes))
    // The chunk is taken back when this returns.
    else if (!this.#failure) this.#keep(new Uint8Array(chunk))
    if (isLast) this.#complete = true
    if (this.#failure) {
      if (isLast || this.#bytes > maxBytes + maxDrainedBytes) this.#drained?.()
      return
    }
    if (isLast) {
      inflow.leave(this)
      // What follows is another request.
      this.resume()
    } else if (this.#waitingBytes >= maxWaitingBytes) {
      inflow.leave(this)
      this.pause()
    }
    this.#wake?.()
    this.#wake = undefined
    if (isLast) this.#tellEnd()
  }

  #keep(chunk: Uint8Array): void {
    this.#waitingBytes += chunk.length
    const last = this.#pieces.at(-1)
    if (last?.buffer && last.bytes.length + chunk.length <= bufferBytes) {
      last.buffer.set(chunk, last.bytes.length)
      last.bytes = last.buffer.subarray(0, last.bytes.length + chunk.length)
      return
    }
    const buffer = this.#isRead && chunk.length <= bufferBytes ? this.#bounds.inflow.take() : undefined
    if (buffer) {
      buffer.set(chunk)
      this.#pieces.push({ bytes: buffer.subarray(0, chunk.length), buffer })
    } else if (chunk.length > 0 && this.#hold(chunk.length)) {
      this.#pieces.push({ bytes: Buffer.from(chunk), buffer })
    }
  }

  pause(): void {
    if (this.#isPaused || !this.#res) return
    this.#isPaused = true
    this.#res.pause()
  }

  resume(): void {
    if (!this.#isPaused || !this.#res) return
    this.#isPaused = false
    this.#lastAt = performance.now()
    this.#res.resume()
  }

  #recycle(piece: Piece | undefined): void {
    if (piece?.buffer) this.#bounds.inflow.giveBack(piece.buffer)
    else if (piece) this.#give(piece.bytes.length)
  }

  #drop(): void {
    for (const piece of this.#pieces.splice(0)) this.#recycle(piece)
    this.#waitingBytes = 0
  }

  #hold(bytes: number): boolean {
    const isHeld = this.#bounds.budget.take(this.#holder, bytes)
    if (isHeld) this.#held += bytes
    else this.#end(tooMany())
    return isHeld
  }

  #give(bytes: number): void {
    const given = Math.min(bytes, this.#held)
    this.#bounds.budget.give(this.#holder, given)
    this.#held -= given
  }

  #giveBack(): void {
    this.#give(this.#held)
    this.#giveSlotBack()
  }

  #giveSlotBack(): void {
    if (this.#hasSlot) this.#bounds.slots.give(this.#holder, 1)
    this.#hasSlot = false
  }

  /** Although all of it may have come: nobody has looked at it yet. */
  #refuse(): void {
    if (this.#complete) {
      this.#failure ??= tooMany()
      this.#drop()
      this.#giveBack()
    } else this.#end(tooMany())
  }

  /** What failed holds nothing, and what still comes passes by. */
  #end(failure: Failure): void {
    if (this.settled) return
    this.#failure = failure
    this.#bounds.inflow.leave(this)
    this.#drop()
    this.#giveBack()
    this.resume()
    this.#wake?.()
    this.#wake = undefined
    this.#tellEnd()
  }

  #tellEnd(): void {
    for (const ended of this.#ended.splice(0)) ended()
  }
}

const tooMany = () => unavailable("too many uploads at once")
