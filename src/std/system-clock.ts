import type { Clock, Timer } from "./clock.ts"
import { InStep } from "./in-step.ts"

function after(milliseconds: number, action: () => void): Timer {
  const timeout = setTimeout(action, milliseconds)
  return { stop: () => clearTimeout(timeout) }
}

/** By which of them the process began. */
const hostMsAtOrigin = Number(process.hrtime.bigint()) / 1e6 - performance.now()

/**
 * Milliseconds since a moment that is the same for all processes of a machine. What they do in step they do at the same
 * moment, so that those to whom they then speak (the primary, Redis) wake up once for all of them. Machines began at
 * different moments, so that not all of a cluster speak at once.
 */
export const hostMs = (): number => hostMsAtOrigin + performance.now()

const inStep = new InStep({
  now: hostMs,
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
