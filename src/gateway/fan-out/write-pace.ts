/** Milliseconds of a system call that writes to one socket, whatever its size. */
const writing = 0.0036
/** Of the time after a frame by itself, one part in so many may have been spent on such calls. */
const loneShare = 4
/** And where frames come in numbers, which are cheaper the more of them share a call. */
const busyShare = 8
/** Frames for each socket, from which on more are expected to come together. */
const busyFrames = 2
/** Milliseconds that a frame may wait for others. */
const longestPauseMs = 20
/** What came together so many milliseconds ago tells nothing any more. */
const rememberedMs = 10 * longestPauseMs
/** No frame waits for another one when none has come for one part in so many of the longest wait. */
const quietShare = 2

/**
 * When frames are written to sockets. A system call costs the same whatever is in it, so what reaches
 * many sockets is gathered. All that a worker sends meanwhile waits with it, as a session's events keep their order. It keeps:
 *   PACE1  A frame waits for others for `longestPauseMs` at most.
 *   PACE2  No frame waits in a worker that has not written to a large audience for `rememberedMs`.
 */
export class WritePace {
  /** Of one flush, which may take several turns of the event loop: see `sent`. */
  #reached = 0
  #sockets = 0
  #frames = 0
  /** The last flush: when it was over, and how long others may wait after it. */
  #flushedAt = -Infinity
  #pauseMs = 0
  #isBusy = false
  /** When the first and the last of what waits came. */
  #firstAt = 0
  #lastAt = 0

  /** Something is to be sent. */
  came(nowMs: number, isFirst: boolean): void {
    if (isFirst) this.#firstAt = nowMs
    this.#lastAt = nowMs
  }

  /** The moment at which what waits is to be sent. */
  get dueAt(): number {
    const rested = this.#flushedAt + this.#pauseMs
    if (!this.#isBusy || this.#lastAt - this.#flushedAt > rememberedMs) return rested
    // What others send at the same time comes in several commits, and from several workers.
    const gathered = Math.min(this.#firstAt + this.#pauseMs, this.#lastAt + this.#pauseMs / quietShare)
    return Math.max(rested, gathered)
  }

  /**
   * What a turn of the event loop has sent: so many frames to so many sockets. Many audiences at once
   * gain nothing by a pause, so it counts how many sessions one event has reached at most.
   */
  sent({ reached, sockets, frames }: { reached: number; sockets: number; frames: number }): void {
    this.#reached = Math.max(this.#reached, reached)
    this.#sockets += sockets
    this.#frames += frames
  }

  /** All that was to be sent together is. What goes to few sessions neither begins nor ends a pause. */
  flushed(nowMs: number): void {
    const isBusy = this.#frames >= busyFrames * this.#sockets
    const pauseMs = Math.min(longestPauseMs, ((isBusy ? busyShare : loneShare) - 1) * writing * this.#reached)
    if (pauseMs >= 1) {
      this.#isBusy = isBusy
      this.#pauseMs = pauseMs
      this.#flushedAt = nowMs
    }
    // What is left came before, and has waited.
    this.#firstAt = nowMs
    this.#reached = this.#sockets = this.#frames = 0
  }
}
