/** A connection that brings a file. */
export interface Source {
  pause(): void
  resume(): void
}

/** uWebSockets.js reads no more of a connection at a time. */
export const bufferBytes = 512 * 1024

/**
 * Connections that go on within about one turn of the event loop: what they bring is copied, looked at
 * and hashed in it, which takes about half a millisecond each. Whatever else there is to do waits for it.
 */
const maxPerTurn = 4

/**
 * The buffers through which files pass on their way in, and the connections that fill them. Memory that
 * was used before costs a tenth of new memory, which the system has to clear first. It keeps:
 *   FLOW1  However many files come, no more than `maxBuffers` are in use: while all are, every
 *          connection waits.
 *   FLOW2  Who brings nothing keeps nobody waiting: a connection has a buffer from what it brings
 *          until that is written, and not before.
 */
export class Inflow {
  readonly #maxBuffers: number
  readonly #free: Buffer[] = []
  #used = 0
  /** Told to go on, and nothing came yet. */
  readonly #open = new Set<Source>()
  /** The first is the next to go on. */
  readonly #waiting = new Set<Source>()
  /** Went on in this turn: they are about to bring something, or have nothing. */
  #expected = 0
  #isTurnCounted = false

  constructor(maxBytes: number) {
    this.#maxBuffers = Math.max(1, Math.floor(maxBytes / bufferBytes))
  }

  /** It takes something more once a buffer is free. */
  open(source: Source): void {
    if (this.#open.has(source)) return
    this.#waiting.add(source)
    this.#next()
  }

  /** It takes nothing more for now, or never. */
  leave(source: Source): void {
    this.#waiting.delete(source)
    this.#open.delete(source)
  }

  /** A buffer for what a source brings; undefined: all are in use. */
  take(): Buffer | undefined {
    if (this.#used === this.#maxBuffers) return undefined
    if (++this.#used === this.#maxBuffers) this.#closeAll()
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(bufferBytes)
  }

  /** `buffer` absent: it is used no longer here, but somebody may read it yet. */
  giveBack(buffer?: Buffer): void {
    this.#used--
    if (buffer) this.#free.push(buffer)
    this.#next()
  }

  /** FLOW1: even those of which this turn knows already that they have something. */
  #closeAll(): void {
    for (const source of this.#open) {
      source.pause()
      this.#waiting.add(source)
    }
    this.#open.clear()
  }

  #next(): void {
    for (const source of this.#waiting) {
      if (this.#expected === maxPerTurn || this.#used + this.#expected >= this.#maxBuffers) break
      this.#waiting.delete(source)
      this.#open.add(source)
      this.#expected++
      source.resume()
    }
    if (this.#expected > 0) this.#countTurn()
  }

  /** What a connection has comes before the turn after the next one. */
  #countTurn(): void {
    if (this.#isTurnCounted) return
    this.#isTurnCounted = true
    setImmediate(() =>
      setImmediate(() => {
        this.#isTurnCounted = false
        this.#expected = 0 // FLOW2
        this.#next()
      }),
    )
  }
}
