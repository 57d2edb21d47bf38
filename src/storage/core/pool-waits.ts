/**
 * How long statements wait for a connection of a pool: as long as all are busy, for the statement
 * that has run longest to end.
 */
export class PoolWaits {
  readonly #connections: number
  readonly #nowMs: () => number
  readonly #onWaited: (seconds: number) => void
  #running = 0
  /** When the statements began to wait that still do, the oldest first. */
  #waiting: number[] = []
  #next = 0
  #total = 0
  #waits = 0
  #waitedMs = 0
  #longestMs = 0

  /** @param options.nowMs monotonic */
  constructor(
    connections: number,
    {
      nowMs = () => performance.now(),
      onWaited = () => {},
    }: {
      nowMs?: () => number
      onWaited?: (seconds: number) => void
    } = {},
  ) {
    this.#connections = connections
    this.#nowMs = nowMs
    this.#onWaited = onWaited
  }

  begin(): void {
    this.#total++
    this.#running++
    if (this.#running <= this.#connections) return
    this.#waits++
    this.#waiting.push(this.#nowMs())
  }

  end(): void {
    this.#running--
    if (this.#next === this.#waiting.length) return
    const waitedMs = this.#nowMs() - this.#waiting[this.#next++]!
    this.#waitedMs += waitedMs
    this.#onWaited(waitedMs / 1000)
    this.#longestMs = Math.max(this.#longestMs, waitedMs)
    if (this.#next < 1_000 && this.#next < this.#waiting.length) return
    this.#waiting.splice(0, this.#next)
    this.#next = 0
  }

  get figures() {
    return {
      total: this.#total,
      waits: this.#waits,
      waitedSeconds: this.#waitedMs / 1000,
      longestSeconds: this.#longestMs / 1000,
    }
  }
}
