import { setTimeout as sleep } from "node:timers/promises"
import { faults, type Fault, type Scene } from "./faults.ts"
import { isBeside, type Recorder } from "./history.ts"
import type { Random } from "./random.ts"
import type { Reader } from "./reader.ts"
import type { System } from "./system.ts"

/** One fault that will be. */
export interface Planned {
  /** Milliseconds after the beginning of the faults; later where the one before takes longer. */
  at: number
  fault: string
  choice: number
  hold: number
  rest: number
}

export interface Schedule {
  /** One after the other. */
  main: Planned[]
  /** Beside them: what should harm nobody at all. */
  side: Planned[]
  /** What does not fit into a run of this length. */
  left: string[]
}

/** From here on a run has time for the long ones, and from there on for rest between two. */
export const longRun = 100_000
const calmRun = 300_000

/** The same seed and length make the same schedule. */
export function planFaults(random: Random, milliseconds: number): Schedule {
  const isLong = milliseconds >= longRun
  const wanted = (fault: Fault) => isLong || !fault.long
  const lane = (list: readonly Fault[]): [Planned[], Set<string>] => {
    const planned: Planned[] = []
    const seen = new Set<string>()
    for (let at = 0; ;) {
      const round = random.shuffled(
        isLong && planned.length > 0 ? list.flatMap(one => Array<Fault>(one.weight ?? 1).fill(one)) : list,
      )
      let fits = false
      for (const { name, hold, rest: least } of round) {
        const choice = random.below(1 << 16)
        const rest = milliseconds >= calmRun ? least + Math.round(random.next() * 9_000) : least
        if (at + hold + rest > milliseconds) continue
        fits = true
        seen.add(name)
        planned.push({ at, fault: name, choice, hold, rest })
        at += hold + rest
      }
      if (!fits || !isLong) return [planned, seen]
    }
  }
  const [main, inMain] = lane(faults.filter(one => !isBeside(one) && wanted(one)))
  const [side, inSide] = lane(faults.filter(one => isBeside(one) && wanted(one)))
  const left = faults.map(({ name }) => name).filter(name => !inMain.has(name) && !inSide.has(name))
  return { main, side, left }
}

/** What came of a fault over a run. */
export interface FaultOutcome {
  fault: string
  times: number
  /** Kills, signals, bytes lost, … by the fault's own count. */
  count: number
  skipped?: string
  /** Why one of them could not be carried out. */
  failed?: string
}

/** Carries a schedule out. Resolves with what was done, when the last fault is over. */
export async function unleash(options: {
  schedule: Schedule
  system: System
  readers: readonly Reader[]
  fatten: Scene["fatten"]
  recorder: Recorder
  /** Resolves when clients are served everywhere again, or when that takes too long. */
  calm: () => Promise<void>
}): Promise<Map<string, FaultOutcome>> {
  const { schedule, system, readers, fatten, recorder, calm } = options
  const outcomes = new Map<string, FaultOutcome>()
  let ids = 0
  const began = performance.now()
  const lane = async (planned: readonly Planned[]) => {
    for (const { at, fault: name, choice, hold, rest } of planned) {
      await sleep(Math.max(0, began + at - performance.now()))
      const fault = faults.find(one => one.name === name)!
      const outcome: FaultOutcome = outcomes.get(name) ?? { fault: name, times: 0, count: 0 }
      outcomes.set(name, outcome)
      const skipped = system.impossible.get(name)
      if (skipped !== undefined) {
        outcome.skipped = skipped
        continue
      }
      const id = ++ids
      const { kind } = fault
      let begun = false
      const begin = (target = "") => {
        begun = true
        recorder.add({ type: "fault", id, name, kind, phase: "begin", target })
      }
      const count = (times = 1) => {
        outcome.count += times
      }
      if (!isBeside(fault)) await calm()
      await fault.run({ system, readers, fatten, choice, hold, begin, count }).catch((error: Error) => {
        outcome.failed = error.message // and the run goes on: what was seen so far must be judged
      })
      if (begun) recorder.add({ type: "fault", id, name, kind, phase: "end" })
      outcome.times++
      await sleep(rest)
    }
  }
  await Promise.all([lane(schedule.main), lane(schedule.side)])
  return outcomes
}
