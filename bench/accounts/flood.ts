/**
 * Whether those who talk notice that more people sign in than can be hashed: from a post to its
 * frame, with and without them.
 */
import type { Harness } from "../harness.ts"
import { latencyMeanwhile } from "../meanwhile.ts"
import type { Disturbance, Meanwhile } from "../meanwhile.ts"
import { compare } from "../trials.ts"
import type { Comparison, Extent } from "../trials.ts"
import type { Way } from "../latency.ts"
import { loginPath, password } from "./people.ts"

/** Each waits this long at least before it tries again. */
const everyMs = 250
/** It is ended before. */
const longestSeconds = 200

export interface FloodExtent extends Extent {
  /** Who sign in at once, over and over. */
  readonly lanes: number
}

/** What became of the sign-ins. */
export interface Outcome {
  readonly seconds: number
  /** By status, and why. */
  readonly answers: Record<string, number>
  /** Of those who got in, milliseconds. */
  readonly p50: number
  readonly p99: number
}

export interface FloodResult {
  readonly lanes: number
  readonly everyMs: number
  readonly outcomes: Outcome[]
  /** `bare` is the same server without the flood. */
  readonly ways: (Way & { readonly p50: Comparison; readonly p99: Comparison })[]
  readonly raw: Meanwhile<Outcome | undefined>[]
}

export async function benchFlood(
  harness: Harness,
  extent: FloodExtent,
  say: (what: string) => void,
): Promise<FloodResult> {
  const { lanes } = extent
  const { usernames } = harness.population.registered[1]!
  const starling = await harness.startStarling()
  let first = 0
  const flood: Disturbance<Outcome | undefined> = {
    name: `${lanes} sign in at once`,
    async begin() {
      const clients = harness.startLoadGroup()
      const input = { url: starling.url, path: loginPath, usernames, password, first, inFlight: lanes, everyMs }
      const signingIn = clients.loadGroup.ask("signIn", { ...input, seconds: longestSeconds, mayBeRefused: true })
      // The caller that ends it learns of it.
      signingIn.catch(() => undefined)
      return async () => {
        try {
          await clients.loadGroup.ask("stopSigningIn", null)
          const { seconds, answers, latency } = await signingIn
          first += Object.values(answers).reduce((sum, count) => sum + count, 0)
          return { seconds, answers, p50: latency.p50, p99: latency.p99 }
        } finally {
          await clients.stop()
        }
      }
    },
  }
  try {
    const nothing = { name: "nothing", begin: async () => async () => undefined }
    const raw = await latencyMeanwhile(harness, starling, [nothing, flood], extent, say)
    const [alone, flooded] = raw
    const ways = alone!.ways.map(({ postedAtOwner, heardAtOwner, runs }, way) => {
      const pairs = runs.flatMap((bare, run) => {
        const starling = flooded!.ways[way]!.runs[run]!
        // With few connections all may be on one worker: such a run says nothing about this way.
        return bare.count > 0 && starling.count > 0 ? [{ bare, starling }] : []
      })
      const both = { bare: pairs.map(({ bare }) => bare), starling: pairs.map(({ starling }) => starling) }
      const of = (value: (run: (typeof runs)[number]) => number) => compare(both, value, value)
      return { postedAtOwner, heardAtOwner, p50: of(run => run.p50), p99: of(run => run.p99) }
    })
    const outcomes = flooded!.notes.flatMap(outcome => outcome ?? [])
    return { lanes, everyMs, outcomes, ways, raw }
  } finally {
    await starling.stop()
  }
}
