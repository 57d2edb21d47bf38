import { performance, type IntervalHistogram, type monitorEventLoopDelay } from "node:perf_hooks"
import { systemClock } from "../std/system-clock.ts"
import type { Clock, Timer } from "../std/clock.ts"

export interface LoopDelayOptions {
  /** Milliseconds between two looks at the event loop; a shorter delay is seen only now and then. */
  readonly resolutionMs: number
  /** The same while the process has little to do: each look wakes one that would sleep. */
  readonly idleResolutionMs: number
  readonly monitorLoop: typeof monitorEventLoopDelay
  readonly clock?: Pick<Clock, "every">
  /** The share of its time in which the event loop was at work since the last call. */
  readonly workingShare?: () => number
}

const lookEveryMs = 1_000
/** A process that works for a larger share of its time has something to do. */
const busyShare = 0.05

/** How late the event loop is. It is looked at more often while there is something to be late. */
export class LoopDelay {
  readonly #idle: Monitor
  readonly #busy: Monitor
  readonly #looking: Timer | undefined
  #active: Monitor

  constructor(options: LoopDelayOptions) {
    const { resolutionMs, idleResolutionMs, monitorLoop, clock = systemClock, workingShare = shareAtWork() } = options
    this.#busy = new Monitor(monitorLoop, resolutionMs)
    this.#idle = idleResolutionMs === resolutionMs ? this.#busy : new Monitor(monitorLoop, idleResolutionMs)
    this.#active = this.#idle
    this.#active.begin()
    if (this.#idle === this.#busy) return
    this.#looking = clock.every(lookEveryMs, () => this.#use(workingShare() > busyShare ? this.#busy : this.#idle))
  }

  /** Seconds, since the last `takeMax`; those of the way in which it is looked at now. */
  percentile(percent: number): number {
    return this.#active.percentile(percent)
  }

  /** The longest in seconds; the period ends with it. */
  takeMax(): number {
    return Math.max(this.#busy.takeMax(), this.#idle.takeMax())
  }

  stop(): void {
    this.#looking?.stop()
    this.#active.end()
  }

  #use(monitor: Monitor): void {
    if (monitor === this.#active) return
    this.#active.end()
    this.#active = monitor
    monitor.begin()
  }
}

class Monitor {
  readonly #loop: IntervalHistogram
  readonly #resolutionMs: number
  /** Of the times before it was begun for the last time, which Node forgets. */
  #maxBefore = 0

  constructor(monitorLoop: typeof monitorEventLoopDelay, resolutionMs: number) {
    this.#resolutionMs = resolutionMs
    this.#loop = monitorLoop({ resolution: resolutionMs })
  }

  begin(): void {
    this.#maxBefore = this.#max
    this.#loop.enable()
  }

  end(): void {
    this.#loop.disable()
  }

  percentile(percent: number): number {
    return this.#delay(this.#loop.percentile(percent))
  }

  takeMax(): number {
    const max = this.#max
    this.#maxBefore = 0
    this.#loop.reset()
    return max
  }

  get #max(): number {
    return Math.max(this.#maxBefore, this.#loop.count > 0 ? this.#delay(this.#loop.max) : 0)
  }

  /** Node records the time between two looks, its own pause included, and NaN before the first. */
  #delay(nanoseconds: number): number {
    return Math.max(0, nanoseconds / 1e9 - this.#resolutionMs / 1e3) || 0
  }
}

function shareAtWork(): () => number {
  let before = performance.eventLoopUtilization()
  return () => {
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, before)
    before = now
    return utilization
  }
}
