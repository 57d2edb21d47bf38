/**
 * How much comes when. The model is open: sessions and requests arrive at a rate that does not wait for
 * the server, so a server that is too slow is not spared. What could not even begin is counted as
 * `dropped_iterations`.
 */
import type { RampingArrivalRateScenario, Threshold } from "k6/options"
import { numberOf } from "./target.ts"

interface Stage {
  readonly seconds: number
  /** Of the full rate, at the end of the stage; it changes evenly. */
  readonly share: number
}

interface Variant {
  readonly about: string
  /** Of the full rate, at the beginning. */
  readonly from: number
  readonly stages: readonly Stage[]
  /** Ends as soon as a limit is crossed. */
  readonly endsEarly?: boolean
}

const steps = [0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2]
const variants: Record<string, Variant> = {
  smoke: { about: "does it work", from: 1, stages: [{ seconds: 20, share: 1 }] },
  ramp: {
    about: "up to the full rate, some minutes at it, and down",
    from: 0,
    stages: [
      { seconds: 300, share: 1 },
      { seconds: 300, share: 1 },
      { seconds: 60, share: 0 },
    ],
  },
  stress: {
    about: "in steps to twice the full rate, until a limit is crossed",
    from: 0,
    stages: steps.flatMap(share => [
      { seconds: 10, share },
      { seconds: 110, share },
    ]),
    endsEarly: true,
  },
  soak: { about: "the full rate for an hour", from: 1, stages: [{ seconds: 3_600, share: 1 }] },
}

export const variantName = __ENV["VARIANT"] ?? "smoke"
const found = variants[variantName]
if (found === undefined) throw new Error(`VARIANT is one of ${Object.keys(variants).join(", ")}, not ${variantName}`)
export const variant: Variant = found

const plannedSeconds = variant.stages.reduce((sum, { seconds }) => sum + seconds, 0)
/** MINUTES stretches or shortens the whole. */
const stretch = (numberOf("MINUTES", plannedSeconds / 60) * 60) / plannedSeconds
export const totalSeconds = plannedSeconds * stretch
const peak = Math.max(variant.from, ...variant.stages.map(({ share }) => share))

/**
 * @param perSecond at the full rate
 * @param lastsSeconds an iteration, at most, while all goes well: so many are there at once
 */
export function arrivals(
  exec: string,
  perSecond: number,
  lastsSeconds: number,
  more: { startTime?: string; gracefulStop: string },
): RampingArrivalRateScenario {
  // k6 takes whole numbers only; by the minute also small rates are.
  const rate = (share: number) => Math.max(share > 0 ? 1 : 0, Math.round(perSecond * 60 * share))
  const maxConcurrent = Math.ceil(perSecond * peak * lastsSeconds)
  return {
    executor: "ramping-arrival-rate",
    exec,
    timeUnit: "1m",
    startRate: rate(variant.from),
    stages: variant.stages.map(({ seconds, share }) => ({
      duration: `${Math.max(1, Math.round(seconds * stretch * 1_000))}ms`,
      target: rate(share),
    })),
    preAllocatedVUs: Math.ceil(maxConcurrent * 1.2) + 2,
    maxVUs: maxConcurrent * 2 + 10,
    ...more,
  }
}

/** What has to be true of a metric. */
export function limit(threshold: string): Threshold[] {
  return [variant.endsEarly ? { threshold, abortOnFail: true, delayAbortEval: "30s" } : threshold]
}
