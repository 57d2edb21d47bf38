import { isUtf8 } from "node:buffer"
import type { HttpResponse } from "uWebSockets.js"
import { fail, unavailable, type Failure } from "../../contract/core/errors.ts"
import type { ByteBudget } from "../../std/byte-budget.ts"

export interface BodyBounds {
  /** Bytes of the whole body. */
  readonly maxBytes: number
  /** What a larger one is refused with. */
  readonly tooLarge: () => Failure
  /** Milliseconds in which the whole body has to come. */
  readonly timeoutMs: number
  /** Milliseconds in which something more of it has to come. */
  readonly idleTimeoutMs: number
  /** What bodies of this kind may hold in memory together; absent: not counted. */
  readonly budget: ByteBudget | undefined
}

/** Bytes of a body that is refused. */
export const maxDrainedBytes = 64 * 1024 * 1024

/**
 * A request's body on its way in. Most arrive with their head, right after it was looked at; one
 * promise waits for that.
 */
export class RequestBody {
  readonly #bounds: BodyBounds
  readonly #startedAt: number
  #chunks: Buffer[] | undefined
  #bytes = 0
  #announced = 0
  /** Of the budget, by the holder. */
  #held = 0
  #holder: string
  #lastAt: number
  #complete = false
  #whole: Buffer | undefined
  #failure: Failure | undefined
  #wake: (() => void) | undefined
  #isGone = false
  #drained: (() => void) | undefined

  /**
   * @param startedAt milliseconds on the clock of `performance.now`
   * @param holder whose share of the budget it takes until `belongTo` says more
   */
  constructor(bounds: BodyBounds, startedAt: number, holder: string) {
    this.#bounds = bounds
    this.#startedAt = startedAt
    this.#holder = holder
    this.#lastAt = startedAt
  }

  /** Every byte is in. A reply that goes out before has to end the connection. */
  get complete(): boolean {
    return this.#complete
  }

  /** Nothing more is awaited. */
  get settled(): boolean {
    return this.#complete || this.#failure !== undefined
  }

  /** It counts for somebody. */
  get isCharged(): boolean {
    return this.#bounds.budget !== undefined
  }

  isOverdue(now: number): boolean {
    const { timeoutMs, idleTimeoutMs } = this.#bounds
    return now > Math.min(this.#startedAt + timeoutMs, this.#lastAt + idleTimeoutMs)
  }

  listen(res: HttpResponse, announcedBytes: number): void {
    this.#announced = announcedBytes
    if (announcedBytes > this.#bounds.maxBytes) this.#end(this.#bounds.tooLarge())
    res.onData((chunk, isLast) => this.#take(chunk, isLast))
  }

  expire(): void {
    this.#end(fail("request_timeout"))
  }

  /** The client is gone. */
  abandon(): void {
    this.#isGone = true
    this.#end(fail("bad_request"))
    this.#drained?.()
  }

  /**
   * Reads and drops the rest for a while: an answer that is sent before ends the connection, and
   * many clients that still write at that moment never read it. Not where the rest is too long.
   */
  async drained(): Promise<void> {
    if (this.#complete || this.#isGone || this.#announced > maxDrainedBytes) return
    this.#end(fail("bad_request"))
    await withinMs(this.#bounds.idleTimeoutMs, done => {
      this.#drained = done
    })
  }

  /** Its holder is known: what it holds counts for them. */
  belongTo(holder: string): void {
    const held = this.#held
    this.#giveBack()
    this.#holder = holder
    if (this.#failure || !this.#bounds.budget) return
    if (this.#bounds.budget.take(holder, held)) this.#held = held
    else this.#refuse(tooMany())
  }

  /** Gives back what it holds. Its bytes are not used after this. */
  release(): void {
    if (!this.settled) this.#end(fail("bad_request"))
    this.#whole = undefined
    this.#giveBack()
  }

  /** Until nothing more is awaited. */
  whenSettled(): Promise<void> {
    return this.settled ? Promise.resolve() : new Promise<void>(resolve => (this.#wake = resolve))
  }

  /** Of a body that is settled; undefined when there are none. */
  bytes(): Buffer | undefined {
    if (this.#failure) throw this.#failure
    return this.#whole
  }

  /** The same as text. */
  text(): string | undefined {
    const bytes = this.bytes()
    if (bytes === undefined) return undefined
    if (!isUtf8(bytes)) throw fail("bad_request")
    return bytes.toString("utf8")
  }

  #take(chunk: ArrayBuffer, isLast: boolean): void {
    const { maxBytes, tooLarge } = this.#bounds
    this.#bytes += chunk.byteLength
    this.#lastAt = performance.now()
    if (this.#bytes > maxBytes) this.#end(tooLarge())
    if (!this.#failure && !this.#hold(chunk.byteLength)) this.#end(tooMany())
    if (this.#failure) {
      if (isLast) this.#complete = true
      if (isLast || this.#bytes > maxDrainedBytes) this.#drained?.()
      return
    }
    // The chunk is taken back when this returns.
    const part = Buffer.from(new Uint8Array(chunk))
    if (!isLast) {
      ;(this.#chunks ??= []).push(part)
      return
    }
    const whole = this.#chunks ? Buffer.concat([...this.#chunks, part]) : part
    this.#complete = true
    if (whole.length > 0) this.#whole = whole
    this.#end()
  }

  /**
   * Whether there is budget for more: for its parts, and for the whole that they are put together
   * to.
   */
  #hold(bytes: number): boolean {
    const { budget } = this.#bounds
    if (!budget) return true
    const needed = bytes * 2
    if (!budget.take(this.#holder, needed)) return false
    this.#held += needed
    return true
  }

  #giveBack(): void {
    this.#bounds.budget?.give(this.#holder, this.#held)
    this.#held = 0
  }

  /** Even what is complete: nobody has asked for its bytes yet. */
  #refuse(failure: Failure): void {
    this.#failure ??= failure
    this.#whole = undefined
    this.#end()
  }

  /** What failed holds nothing, however long its sender goes on. */
  #end(failure?: Failure): void {
    if (!this.#complete) this.#failure ??= failure
    this.#chunks = undefined
    if (this.#failure) this.#giveBack()
    this.#wake?.()
    this.#wake = undefined
  }
}

const tooMany = () => unavailable("too many uploads at once")

/** Until it is done, or for so many milliseconds. */
export async function withinMs(milliseconds: number, start: (done: () => void) => void): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  await new Promise<void>(resolve => {
    start(resolve)
    timer = setTimeout(resolve, milliseconds)
  })
  clearTimeout(timer)
}
