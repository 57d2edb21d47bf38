/**
 * From a post to its frame while something else goes on, beside the same on an idle system in the
 * same run.
 */
import type { Harness, Starling } from "./harness.ts"
import { benchLatency } from "./latency.ts"
import type { Way, WayResult } from "./latency.ts"
import { figure } from "./statistics.ts"
import type { Figure } from "./statistics.ts"
import { pause } from "./trials.ts"
import type { Extent } from "./trials.ts"

export interface Disturbance<Note> {
  readonly name: string
  /** Begins it. @returns what ends it and answers what is to be noted of it */
  begin(): Promise<() => Promise<Note>>
}

export interface Meanwhile<Note> {
  readonly meanwhile: string
  /** By run. */
  readonly notes: Note[]
  readonly ways: (Way & { readonly p50: Figure; readonly p99: Figure; readonly runs: WayResult["runs"] })[]
}

/** By disturbance, in the order given; they take turns, and who goes first changes. */
export async function latencyMeanwhile<Note>(
  harness: Harness,
  starling: Starling,
  disturbances: readonly Disturbance<Note>[],
  extent: Extent,
  say: (what: string) => void,
): Promise<Meanwhile<Note>[]> {
  const measured = disturbances.map(() => ({ ways: [] as WayResult[][], notes: [] as Note[] }))
  for (let run = 0; run < extent.runs; run++) {
    const turns = disturbances.map((disturbance, i) => [disturbance, measured[i]!] as const)
    for (const [{ name, begin }, { ways, notes }] of run % 2 === 0 ? turns : turns.toReversed()) {
      const end = await begin()
      try {
        ways.push(
          await benchLatency(harness, starling, { ...extent, runs: 1 }, () => say(`latency, meanwhile: ${name}`)),
        )
      } finally {
        notes.push(await end())
      }
      // What it left behind is none of the next one's.
      await pause(extent.warmUpSeconds)
    }
  }
  return disturbances.map(({ name }, i) => ({
    meanwhile: name,
    notes: measured[i]!.notes,
    ways: merged(measured[i]!.ways),
  }))
}

function merged(results: readonly WayResult[][]): Meanwhile<unknown>["ways"] {
  return results[0]!.map(({ postedAtOwner, heardAtOwner }, i) => {
    const runs = results.flatMap(ways => ways[i]!.runs)
    const seen = runs.filter(({ count }) => count > 0)
    const p50 = figure(seen.map(run => run.p50))
    return { postedAtOwner, heardAtOwner, runs, p50, p99: figure(seen.map(run => run.p99)) }
  })
}
