import { createHistogram, performance } from "node:perf_hooks"
import { hostMs } from "../std/system-clock.ts"

/** What a process sees of itself. */
export interface LoopView {
  /** Milliseconds that only rise. */
  readonly now: () => number
  /** Of them, those in which the event loop did something. */
  readonly active: () => number
  /** The process need not go on for it. */
  readonly wait: (milliseconds: number, action: () => void) => { stop(): void }
}

const thisProcess: LoopView = {
  now: hostMs,
  active: () => performance.eventLoopUtilization().active,
  wait(milliseconds, action) {
    const timer = setTimeout(action, milliseconds).unref()
    return { stop: () => clearTimeout(timer) }
  },
}

/**
 * A process that did something in less than this share of so much time is at rest. What it does in bursts, as answering
 * heartbeats that come together, counts over the whole.
 */
const restShare = 0.02
const restAfterMs = 2_000
/** Then it is looked at as seldom as this, when it is awake anyway: in step with std/in-step.ts. */
const restMs = 500

/**
 * Tells how late the event loop is: every `everyMs` it observes by how many seconds it was late. Each look wakes a process that
 * would sleep, so there is one for all who want to know, and fewer while hardly anything is done that could be late.
 */
export function watchLoop(
  everyMs: number,
  observe: (seconds: number) => void,
  { now, active, wait }: LoopView = thisProcess,
): { stop(): void } {
  const beganAt = now()
  /** When what it does was counted last, and how much that was by then. */
  let counted = { at: beganAt, activeMs: active() }
  let isAtRest = false
  let dueAt = beganAt + everyMs
  let timer = wait(everyMs, look)

  function look(): void {
    const at = now()
    observe(Math.max(0, at - dueAt) / 1e3)
    const activeMs = active()
    const isMuch = activeMs - counted.activeMs >= restShare * restAfterMs
    if (isMuch || at - counted.at >= restAfterMs) {
      isAtRest = !isMuch && everyMs < restMs
      counted = { at, activeMs }
    }
    dueAt = isAtRest ? (Math.floor(at / restMs) + 1) * restMs : at + everyMs
    timer = wait(Math.max(1, Math.ceil(dueAt - at)), look)
  }
  return { stop: () => timer.stop() }
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
