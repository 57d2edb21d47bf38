import { figure } from "./statistics.ts"
import type { Figure } from "./statistics.ts"

/** The two that are compared. */
export interface Sides<B, S = B> {
  bare: B
  starling: S
}

/** How often and how long everything is measured. */
export interface Extent {
  runs: number
  /**
   * Of load before the first run of each kind, which is not counted: code gets compiled, pools and
   * buffers grow.
   */
  warmUpSeconds: number
  /** Of load in a run. */
  seconds: number
  idleSessions: number
  /** Of a server before its memory is looked at: what it hears of presences it keeps for up to a minute. */
  restSeconds: number
  /** Whether a run of posts waits until their outbox rows are swept, to count that too. */
  countsDeferredWork: boolean
}

/**
 * Measures the two in turn, and who goes first changes: whatever else the machine does meets both.
 */
export async function alternate<B, S>(
  runs: number,
  measure: Sides<(run: number) => Promise<B>, (run: number) => Promise<S>>,
): Promise<Sides<B[], S[]>> {
  const results: Sides<B[], S[]> = { bare: [], starling: [] }
  for (let run = 0; run < runs; run++) {
    const isBareFirst = run % 2 === 0
    if (isBareFirst) results.bare.push(await measure.bare(run))
    results.starling.push(await measure.starling(run))
    if (!isBareFirst) results.bare.push(await measure.bare(run))
  }
  return results
}

/**
 * A figure of both sides, and their ratio: of the medians, with the spread of the ratios run by
 * run.
 */
export function compare<B, S>(sides: Sides<B[], S[]>, bareOf: (run: B) => number, starlingOf: (run: S) => number) {
  const bare = sides.bare.map(bareOf)
  const starling = sides.starling.map(starlingOf)
  const runs = figure(starling.map((value, i) => value / bare[i]!))
  const both: Sides<Figure> = { bare: figure(bare), starling: figure(starling) }
  return { ...both, ratio: { ...runs, median: both.starling.median / both.bare.median } }
}
export type Comparison = ReturnType<typeof compare>

export const sum = (parts: Readonly<Record<string, number>>): number =>
  Object.values(parts).reduce((total, value) => total + value, 0)

export const scale = <P extends string>(parts: Record<P, number>, factor: number): Record<P, number> =>
  Object.fromEntries(Object.entries<number>(parts).map(([name, value]) => [name, value * factor])) as Record<P, number>

export const pause = (seconds: number) => new Promise<void>(resolve => setTimeout(resolve, seconds * 1_000))

/** A name that no nonce of another run has. */
let last = 0
export const newRun = (): string => `${process.pid}-${String(++last).padStart(3, "0")}`
