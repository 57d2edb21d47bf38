/** Ends what would have happened later. */
export interface Timer {
  stop(): void
}

/**
 * Time as the program's core sees it, and the only way in which it waits; a simulator has its own.
 */
export interface Clock {
  /** Unix milliseconds: for ids and what people read. It may jump. */
  now(): number
  /** Milliseconds that only rise: for every duration and deadline. */
  monotonic(): number
  sleep(milliseconds: number): Promise<void>
  /** Once what has arrived by now is done with: the next turn of the event loop. */
  soon(action: () => void): void
  after(milliseconds: number, action: () => void): Timer
  /** Again and again, until it is stopped; for the first time after so long at the latest. */
  every(milliseconds: number, action: () => void): Timer
}

/** Unix milliseconds in whole seconds, as rows and answers have them. */
export const secondsAt = (nowMs: number): number => Math.floor(nowMs / 1000)
