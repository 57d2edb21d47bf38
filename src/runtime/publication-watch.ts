import type { Clock, Timer } from "../std/clock.ts"
import type { Log } from "../observability/log.ts"

/** Something that works through what waits. */
export interface Worked {
  /** Milliseconds without success while something waited; 0 while nothing does. */
  readonly stuckForMs: number
}

export interface PublicationWatchOptions {
  readonly commits: Worked
  readonly appends: Worked
  /** A worker is not ready after so long without success. */
  readonly notReadyAfterMs: number
  readonly clock: Clock
  readonly log: Log
}

const lookEveryMs = 500

/**
 * Looks whether what turns decide is committed and appended. The dependencies may answer all other
 * questions meanwhile: the connections that matter here are others.
 */
export class PublicationWatch {
  readonly #options: PublicationWatchOptions
  readonly #timer: Timer
  #isStuck = false

  constructor(options: PublicationWatchOptions) {
    this.#options = options
    this.#timer = options.clock.every(lookEveryMs, () => this.#look())
  }

  get stuckForMs(): number {
    const { commits, appends } = this.#options
    return Math.max(commits.stuckForMs, appends.stuckForMs)
  }

  /** Throws while nothing is committed or appended although something waits. */
  check(): void {
    const reason = this.#reason()
    if (reason !== undefined) throw new Error(reason)
  }

  stop(): void {
    this.#timer.stop()
  }

  #reason(): string | undefined {
    const { commits, appends, notReadyAfterMs } = this.#options
    // What is not committed is not appended: the first cause is named.
    if (commits.stuckForMs >= notReadyAfterMs) return "commits have not succeeded"
    if (appends.stuckForMs >= notReadyAfterMs) return "appends to delivery logs have not succeeded"
    return undefined
  }

  #look(): void {
    const { log } = this.#options
    const reason = this.#reason()
    if (this.#isStuck === (reason !== undefined)) return
    this.#isStuck = reason !== undefined
    if (reason !== undefined) log.warn({ reason, stuckForMs: Math.round(this.stuckForMs) }, "worker not ready")
    else log.info({}, "worker ready again")
  }
}
