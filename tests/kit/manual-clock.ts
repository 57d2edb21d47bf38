import { setImmediate } from "node:timers/promises"
import type { Clock, Timer } from "../../src/std/clock.ts"

interface Due {
  at: number
  /** Undefined: once. */
  readonly everyMs?: number
  readonly action: () => void
}

/**
 * A clock that the test moves, for what is given one. Fake timers would move all that runs in the process, also the servers that tests
 * share: they would live through every one of those seconds.
 */
export class ManualClock implements Clock {
  #ms = 1_000
  readonly #startedAt = Date.now()
  /** In the order in which they were asked for. */
  readonly #due = new Set<Due>()

  now = (): number => this.#startedAt + this.#ms
  monotonic = (): number => this.#ms
  sleep = (milliseconds: number): Promise<void> => new Promise(resolve => this.after(milliseconds, resolve))
  soon = (action: () => void): void => void this.after(0, action)

  after = (milliseconds: number, action: () => void): Timer => this.#add({ at: this.#ms + milliseconds, action })
  every = (everyMs: number, action: () => void): Timer => this.#add({ at: this.#ms + everyMs, everyMs, action })

  #add(due: Due): Timer {
    this.#due.add(due)
    return { stop: () => this.#due.delete(due) }
  }

  /** So much time passes: what is due in it is done in order, each with all that follows from it at once. */
  async pass(milliseconds: number): Promise<void> {
    const until = this.#ms + milliseconds
    await setImmediate()
    for (let next: Due | undefined; (next = this.#next(until));) {
      this.#ms = Math.max(this.#ms, next.at)
      if (next.everyMs === undefined) this.#due.delete(next)
      else next.at += next.everyMs
      next.action()
      await setImmediate()
    }
    this.#ms = until
  }

  #next(until: number): Due | undefined {
    let next: Due | undefined
    for (const due of this.#due) if (due.at <= until && (!next || due.at < next.at)) next = due
    return next
  }
}
