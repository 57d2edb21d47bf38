import { createHistogram } from "node:perf_hooks"

/**
 * Tells how late the event loop is: a timer of `everyMs` observes by how many seconds it was late. Each look wakes a process that
 * would sleep, so there is one for all who want to know.
 */
export function watchLoop(everyMs: number, observe: (seconds: number) => void): { stop(): void } {
  let lookedAt = performance.now()
  const timer = setInterval(() => {
    const now = performance.now()
    observe(Math.max(0, now - lookedAt - everyMs) / 1e3)
    lookedAt = now
  }, everyMs)
  timer.unref()
  return { stop: () => clearInterval(timer) }
}

/** The histogram counts whole numbers from 1 on: microseconds. */
const maxMicroseconds = 3_600_000_000

/** How late the event loop was, for one reader, which ends the periods. */
export class LoopPeriod {
  // Two digits: a percentile is at most one percent off, in 30 KiB.
  readonly #delays = createHistogram({ lowest: 1, highest: maxMicroseconds, figures: 2 })

  observe(seconds: number): void {
    this.#delays.record(Math.min(maxMicroseconds, Math.max(1, Math.round(seconds * 1e6))))
  }

  /** Seconds, since the last `end`; 0 when nobody has looked. */
  percentile(percent: number): number {
    return this.#delays.count === 0 ? 0 : this.#delays.percentile(percent) / 1e6
  }

  end(): void {
    this.#delays.reset()
  }
}
