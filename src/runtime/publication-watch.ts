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
}

/**
 * Looks whether what turns decide is committed and appended. The dependencies may answer all other
 * questions meanwhile: the connections that matter here are others.
 */
export class PublicationWatch {
  readonly #options: PublicationWatchOptions

  constructor(options: PublicationWatchOptions) {
    this.#options = options
  }

  get stuckForMs(): number {
    const { commits, appends } = this.#options
    return Math.max(commits.stuckForMs, appends.stuckForMs)
  }

  /** Throws while nothing is committed or appended although something waits. */
  check(): void {
    const { commits, appends, notReadyAfterMs } = this.#options
    // What is not committed is not appended: the first cause is named.
    if (commits.stuckForMs >= notReadyAfterMs) throw new Error("commits have not succeeded")
    if (appends.stuckForMs >= notReadyAfterMs) throw new Error("appends to delivery logs have not succeeded")
  }
}
