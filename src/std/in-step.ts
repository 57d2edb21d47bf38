import type { Timer } from "./clock.ts"

export interface InStepOptions {
  /** Milliseconds that only rise, as for `wait`. */
  readonly now: () => number
  readonly wait: (milliseconds: number, action: () => void) => Timer
  /** An action has thrown. */
  readonly onError: (error: unknown) => void
}

interface Entry {
  readonly everyMs: number
  readonly action: () => void
  dueAt: number
}

/** A timer of a whole number of milliseconds may come so much early. */
const earlyMs = 1

/**
 * What is done again and again, in step: every `everyMs` counts from the same moment, so that what
 * has to be done twice a second and what has to be done once are done in one wake-up. A process
 * that has nothing else to do sleeps in between. What is due first is done first; of what is due at
 * the same moment, what began first. After a pause of the process each is done once, and then goes
 * on in step.
 */
export class InStep {
  readonly #options: InStepOptions
  /** In the order in which they began. */
  readonly #entries = new Set<Entry>()
  #timer: Timer | undefined
  /** When it wakes up; Infinity while it does not. */
  #wakesAt = Infinity
  #isRunning = false

  constructor(options: InStepOptions) {
    this.#options = options
  }

  /** For the first time after `everyMs` at the latest. */
  every(everyMs: number, action: () => void): Timer {
    const now = this.#options.now()
    const entry: Entry = { everyMs, action, dueAt: nextAfter(now, everyMs) }
    this.#entries.add(entry)
    // A timer that has not come may be one that never will: of a test whose time was its own.
    if (!this.#isRunning && (entry.dueAt < this.#wakesAt || this.#wakesAt < now)) this.#sleep()
    return {
      stop: () => {
        this.#entries.delete(entry)
        // Otherwise it wakes up once for nothing.
        if (this.#entries.size === 0 && !this.#isRunning) this.#sleep()
      },
    }
  }

  #sleep(): void {
    this.#timer?.stop()
    this.#timer = undefined
    this.#wakesAt = Infinity
    for (const { dueAt } of this.#entries) this.#wakesAt = Math.min(this.#wakesAt, dueAt)
    if (this.#wakesAt === Infinity) return
    const { now, wait } = this.#options
    this.#timer = wait(Math.max(1, Math.ceil(this.#wakesAt - now())), () => this.#run())
  }

  #run(): void {
    const { now, onError } = this.#options
    this.#isRunning = true
    const startedAt = now()
    const due = [...this.#entries].filter(({ dueAt }) => dueAt < startedAt + earlyMs)
    due.sort((one, other) => one.dueAt - other.dueAt)
    for (const entry of due) {
      if (!this.#entries.has(entry)) continue // stopped by one before it
      entry.dueAt = nextAfter(Math.max(entry.dueAt, now()), entry.everyMs)
      try {
        entry.action()
      } catch (error) {
        onError(error)
      }
    }
    this.#isRunning = false
    this.#sleep()
  }
}

const nextAfter = (now: number, everyMs: number): number => (Math.floor(now / everyMs) + 1) * everyMs
