import fc from "fast-check"
import type { Oddity } from "./history.ts"
import { plans, plansWithBarriers, plansWithFriends, plansWithLosses, type Plan } from "./plan.ts"
import { run, type RunOptions } from "./world.ts"

export interface SearchOptions {
  /** The same seed goes through the same histories. */
  readonly seed: number
  readonly runs: number
  /** Whether a history that broke a promise is made as short as it can be. */
  readonly shrink: boolean
  /** Whether Redis may lose what it knew. */
  readonly withLosses?: boolean
  /** Whether people befriend and block one another, too; then Redis may lose what it knew. */
  readonly withFriends?: boolean
  /** Whether guests lose access and get it back, too. */
  readonly withBarriers?: boolean
  readonly onRun?: (runs: number) => void
  readonly plant?: RunOptions["plant"]
}

export interface Found {
  readonly runs: number
  /** How often everything happened, over all runs. */
  readonly counters: ReadonlyMap<string, number>
  /** Of the history that is left. */
  readonly breaches: readonly Oddity[]
  readonly plan: Plan | undefined
}

/** Goes through histories until one breaks a promise. */
export async function search(options: SearchOptions): Promise<Found> {
  const { seed, runs, shrink, withLosses = false, withFriends = false, withBarriers = false, onRun, plant } = options
  const counters = new Map<string, number>()
  let done = 0
  let breaches: readonly Oddity[] = []
  const histories = withBarriers
    ? plansWithBarriers
    : withFriends
      ? plansWithFriends
      : withLosses
        ? plansWithLosses
        : plans
  const outcome = await fc.check(
    fc.asyncProperty(histories, async plan => {
      const result = await run(plan, { plant })
      done++
      onRun?.(done)
      for (const [what, count] of result.counters) counters.set(what, (counters.get(what) ?? 0) + count)
      if (result.breaches.length === 0) return
      breaches = result.breaches
      throw new Error("a promise is broken")
    }),
    { seed, numRuns: runs, endOnFailure: !shrink },
  )
  return { runs: done, counters, breaches, plan: outcome.counterexample?.[0] }
}
