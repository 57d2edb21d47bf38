import type { Clock, Timer } from "./clock.ts"

/** Looks again and again while there is something to look at; a process that waits for nothing is not woken up. */
export class SweepWhileAny {
  readonly #clock: Pick<Clock, "every">
  readonly #everyMs: number
  readonly #sweep: () => boolean
  #timer: Timer | undefined

  /** @param sweep tells whether there is anything left to look at */
  constructor(clock: Pick<Clock, "every">, everyMs: number, sweep: () => boolean) {
    this.#clock = clock
    this.#everyMs = everyMs
    this.#sweep = sweep
  }

  /** There is something to look at. */
  begin(): void {
    this.#timer ??= this.#clock.every(this.#everyMs, () => {
      if (!this.#sweep()) this.stop()
    })
  }

  /** Until it is begun again. */
  stop(): void {
    this.#timer?.stop()
    this.#timer = undefined
  }
}
