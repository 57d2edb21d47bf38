import type { IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks"

/** How late the event loop is. */
export class LoopDelay {
  readonly #loop: IntervalHistogram
  readonly #resolutionMs: number

  /** @param resolutionMs between two looks, each of which wakes a process that would sleep; a shorter delay is seen only now and then */
  constructor(monitorLoop: typeof monitorEventLoopDelay, resolutionMs: number) {
    this.#resolutionMs = resolutionMs
    this.#loop = monitorLoop({ resolution: resolutionMs })
    // Once: Node would take a pause in which it did not look for a delay.
    this.#loop.enable()
  }

  /** Seconds, since the last `takeMax`. */
  percentile(percent: number): number {
    return this.#delay(this.#loop.percentile(percent))
  }

  /** The longest in seconds; the period ends with it. */
  takeMax(): number {
    const max = this.#loop.count > 0 ? this.#delay(this.#loop.max) : 0
    this.#loop.reset()
    return max
  }

  stop(): void {
    this.#loop.disable()
  }

  /** Node records the time between two looks, its own pause included, and NaN before the first. */
  #delay(nanoseconds: number): number {
    return Math.max(0, nanoseconds / 1e9 - this.#resolutionMs / 1e3) || 0
  }
}
