import type { Clock } from "./clock.ts"

/** The machine's own time; what is under test or simulated gets another. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds)),
  soon: action => void setImmediate(action),
  after(milliseconds, action) {
    const timeout = setTimeout(action, milliseconds)
    return { stop: () => clearTimeout(timeout) }
  },
  every(milliseconds, action) {
    const interval = setInterval(action, milliseconds)
    return { stop: () => clearInterval(interval) }
  },
}
