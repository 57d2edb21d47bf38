import type { Clock, Timer } from "./clock.ts"
import { InStep } from "./in-step.ts"

function after(milliseconds: number, action: () => void): Timer {
  const timeout = setTimeout(action, milliseconds)
  return { stop: () => clearTimeout(timeout) }
}

const inStep = new InStep({
  now: () => performance.now(),
  wait: after,
  // As if the action had a timer of its own: the process learns of it, and the others go on.
  onError: error =>
    void setImmediate(() => {
      throw error
    }),
})

/** The machine's own time; what is under test or simulated gets another. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds)),
  soon: action => void setImmediate(action),
  after,
  every: (milliseconds, action) => inStep.every(milliseconds, action),
}
