import type { Clock } from "./domain/clock.ts"

/** The machine's own time; what is under test or simulated gets another. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds)),
}
