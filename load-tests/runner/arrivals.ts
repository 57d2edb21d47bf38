/** The executor `ramping-arrival-rate`: iterations begin at a rate, whether or not others have ended. */
import { toMs, type Metrics } from "./metrics.ts"
import type { VirtualUser } from "./virtual-user.ts"

export interface Arrivals {
  readonly executor: string
  readonly exec: string
  readonly startTime?: string
  readonly timeUnit: string
  readonly startRate: number
  readonly stages: readonly { readonly duration: string; readonly target: number }[]
  readonly maxVUs: number
  readonly gracefulStop?: string
}

const tickMs = 2

/** Iterations that should have begun after some time: the area below a rate that changes evenly in each stage. */
export function dueAfter({ startRate, stages, timeUnit }: Arrivals, afterMs: number): number {
  let due = 0
  let rate = startRate
  let leftMs = afterMs
  for (const { duration, target } of stages) {
    const stageMs = toMs(duration)
    const passedMs = Math.min(leftMs, stageMs)
    const reached = rate + ((target - rate) * passedMs) / stageMs
    due += (((rate + reached) / 2) * passedMs) / toMs(/^\d/.test(timeUnit) ? timeUnit : `1${timeUnit}`)
    leftMs -= passedMs
    if (leftMs <= 0) break
    rate = target
  }
  return due
}

/** @param isOver asked at every tick: the run is to end now */
export async function runArrivals(
  name: string,
  about: Arrivals,
  {
    newUser,
    metrics,
    data,
    isOver,
    failed,
  }: {
    newUser: () => VirtualUser
    metrics: Metrics
    data: unknown
    isOver: () => boolean
    /** An iteration ended with an error of the scenario's own. */
    failed: (cause: Error) => void
  },
): Promise<void> {
  if (about.executor !== "ramping-arrival-rate")
    throw new Error(`this runner has no executor ${about.executor}; k6 has`)
  const idle: VirtualUser[] = []
  const busy = new Map<VirtualUser, Promise<void>>()
  let started = 0

  const begin = () => {
    const iterationInTest = started++
    const user = idle.pop() ?? (busy.size < about.maxVUs ? newUser() : undefined)
    if (user === undefined) return metrics.add("dropped_iterations", "counter", 1)
    const run = user
      .run(about.exec, { scenario: name, iterationInTest }, data)
      .catch(failed)
      .then(() => {
        metrics.add("iterations", "counter", 1)
        busy.delete(user)
        idle.push(user)
      })
    busy.set(user, run)
  }

  await waitUntil(toMs(about.startTime), isOver)
  const totalMs = about.stages.reduce((sum, { duration }) => sum + toMs(duration), 0)
  const startedAt = performance.now()
  for (let afterMs = 0; afterMs < totalMs && !isOver(); afterMs = performance.now() - startedAt) {
    for (let due = Math.floor(dueAfter(about, afterMs)) - started; due > 0; due--) begin()
    await new Promise(resolve => setTimeout(resolve, tickMs))
  }
  const ended = Promise.all(busy.values())
  await Promise.race([ended, waitUntil(toMs(about.gracefulStop ?? "30s"), isOver)])
  for (const user of busy.keys()) user.interrupt()
  await ended
}

async function waitUntil(milliseconds: number, isOver: () => boolean): Promise<void> {
  const endsAt = performance.now() + milliseconds
  while (performance.now() < endsAt && !isOver())
    await new Promise(resolve => setTimeout(resolve, Math.min(100, endsAt - performance.now())))
}
