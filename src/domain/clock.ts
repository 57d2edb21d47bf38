/** Time as the program's core sees it; a simulator has its own. */
export interface Clock {
  /** Unix milliseconds: for ids and what people read. It may jump. */
  now(): number
  /** Milliseconds that only rise: for every duration and deadline. */
  monotonic(): number
  sleep(milliseconds: number): Promise<void>
}
