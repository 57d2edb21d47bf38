/**
 * How much slower than alone a process of this machine was, by what the kernel says of the run's
 * own: the time that it ran, and the time that it could have run and did not get a core. Times that
 * are promised hold on a machine that has the cores for the run; where others took them, the
 * promise is stretched as much as the run itself was.
 */
import { readFile } from "node:fs/promises"
import { setTimeout as sleep } from "node:timers/promises"
import type { History, Recorder } from "./history.ts"

/**
 * Up to here nothing is stretched: a run on two cores that other work shared (load 8) was 3.3 times
 * slower than alone as a whole, and no gap and no answer took longer than 4 of the promised 5
 * seconds.
 */
const borne = 3

/** Nanoseconds; undefined where the kernel does not tell. */
async function schedule(): Promise<{ ran: number; waited: number } | undefined> {
  const text = await readFile("/proc/self/schedstat", "utf8").catch(() => "")
  const [ran, waited] = text.trim().split(" ").map(Number)
  return ran !== undefined && waited !== undefined ? { ran, waited } : undefined
}

export async function watchMachine(recorder: Recorder, ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    const times = await schedule()
    if (!times) return
    recorder.add({ type: "machine", ...times })
    await sleep(250, undefined, { signal: ended }).catch(() => {})
  }
}

/**
 * 1: whenever the run could have gone on, it had a core; 2: half of the time it had to wait for
 * one.
 */
type Slowness = (from: number, to: number) => number

export function slownessOf(history: History): Slowness {
  const samples = history.filter(entry => entry.type === "machine")
  return (from, to) => {
    const first = samples.findLast(({ at }) => at <= from) ?? samples[0]
    const last = samples.find(({ at }) => at >= to) ?? samples.at(-1)
    if (!first || !last || last.ran <= first.ran) return 1
    return 1 + (last.waited - first.waited) / (last.ran - first.ran)
  }
}

/** By how much a promised time is stretched. */
export function stretchOf(history: History): Slowness {
  const slowness = slownessOf(history)
  return (from, to) => Math.max(1, slowness(from, to) / borne)
}
