/**
 * What an acknowledgement, a count of what is unread and a page with receipts cost, by stored
 * messages and by readers; the sizes take turns.
 */
import { limits } from "../../src/contract/core/limits.ts"
import type { Harness, Starling } from "../harness.ts"
import type { LoadGroup } from "../load/load-group.ts"
import type { Wanted } from "../load/load-process.ts"
import { idleCpu } from "../posts.ts"
import { cpuSince, readCpu } from "../processes.ts"
import type { LatencySummary } from "../statistics.ts"
import { compare, pause, sum } from "../trials.ts"
import type { Comparison } from "../trials.ts"
import { authors, messageAt, type Readings, type Size } from "./plant.ts"

const inFlight = 4

export interface CostExtent {
  readonly runs: number
  /** Requests of a run. */
  readonly count: number
  readonly idleSeconds: number
  readonly settleSeconds: number
}

export interface CostRun {
  readonly count: number
  /** Microseconds of CPU each, by part, without what an idle server takes meanwhile. */
  readonly cpuByPart: Record<string, number>
  readonly latency: LatencySummary
}

export interface CostCase {
  readonly work: string
  readonly by: "messages" | "readers"
  readonly sizes: readonly { readonly size: number; readonly runs: readonly CostRun[] }[]
  /** The largest beside the smallest. */
  readonly cpu: Comparison
}

interface Setting {
  readonly starling: Starling
  readonly loadGroup: LoadGroup
  readonly readings: Readings
  readonly extent: CostExtent
  readonly idle: Readonly<Record<string, number>>
}

type Work = (setting: Setting, size: Size, run: number) => Wanted[]

const times = (count: number, make: (i: number) => Wanted): Wanted[] => Array.from({ length: count }, (_, i) => make(i))

/** People read on, a few messages at a time, among the latest. */
const acks: Work = ({ readings: { community }, extent }, { channel, messages }, run) =>
  times(extent.count, i => {
    const { people } = community
    const round = Math.floor(i / people.length) + run * Math.ceil(extent.count / people.length)
    const at = Math.min(messages, messages - 500 + 5 * round + (i % 5))
    const path = `/channels/${channel}/messages/ack?message_id=${messageAt(channel, at)}`
    return { method: "POST", path, token: people[i % people.length]!.token }
  })

/** Of one who has read nothing. */
const nothingRead: Work = ({ readings: { community }, extent }, { channel }) =>
  times(extent.count, () => ({
    method: "GET",
    path: `/channels/${channel}/messages/unread`,
    token: community.people.at(-1)!.token,
  }))

const pagesOf =
  (isOwn: boolean): Work =>
  ({ readings: { community }, extent }, { channel, messages }) => {
    const people = isOwn ? community.people.slice(0, authors) : community.people.slice(authors)
    return times(extent.count, i => ({
      method: "GET",
      path: `/channels/${channel}/messages?limit=50&before=${messageAt(channel, messages - (i % 100))}`,
      token: people[i % people.length]!.token,
    }))
  }

const [othersPages, ownPages] = [pagesOf(false), pagesOf(true)]

export async function benchCosts(
  harness: Harness,
  readings: Readings,
  extent: CostExtent,
  say: (what: string) => void,
): Promise<CostCase[]> {
  const starling = await harness.startStarling({ RATE_LIMITS: "off" })
  const { loadGroup, stop } = harness.startLoadGroup()
  try {
    await pause(1)
    const idle = await idleCpu(starling.parts, extent.idleSeconds)
    const setting = { starling, loadGroup, readings, extent, idle }
    const cases: CostCase[] = []
    const growing = ["messages", "readers"] as const
    for (const [work, wanted, ways] of [
      ["unread, of one who has read nothing", nothingRead, growing],
      ["acknowledgement", acks, growing],
      ["page of 50 of others' messages, with receipts", othersPages, growing],
      ["page of 50 with one's own among them, with names", ownPages, ["readers"]],
    ] as const)
      for (const by of ways) {
        say(`${work}, by ${by}`)
        const sizes = by === "messages" ? readings.byMessages : readings.byReaders
        // Of fewer readers there are fewer names than may be.
        const named = sizes.filter(({ readers }) => readers >= limits.readersNamed)
        cases.push(await measure(setting, { work, by, wanted, sizes: wanted === ownPages ? named : sizes }))
      }
    return cases
  } finally {
    await stop()
    await starling.stop()
  }
}

/** Everything that one person in many servers has not read. */
export async function benchUnread(harness: Harness, { joiner }: Readings, extent: CostExtent): Promise<CostRun[]> {
  const starling = await harness.startStarling({ RATE_LIMITS: "off" })
  const { loadGroup, stop } = harness.startLoadGroup()
  try {
    await pause(1)
    const idle = await idleCpu(starling.parts, extent.idleSeconds)
    const runs: CostRun[] = []
    const wanted = times(Math.max(4, extent.count / 20), () => ({
      method: "GET",
      path: "/users/@me/unread",
      token: joiner.token,
    }))
    for (let run = -1; run < extent.runs; run++) {
      const result = await measured({ starling, loadGroup, extent, idle }, wanted)
      if (run >= 0) runs.push(result)
    }
    return runs
  } finally {
    await stop()
    await starling.stop()
  }
}

async function measure(
  setting: Setting,
  { work, by, wanted, sizes: list }: Pick<CostCase, "work" | "by"> & { wanted: Work; sizes: readonly Size[] },
): Promise<CostCase> {
  const { extent } = setting
  const runs = list.map((): CostRun[] => [])
  // A first round is not counted: code gets compiled, homes wake.
  for (let run = -1; run < extent.runs; run++) {
    const turns = [...list.entries()]
    for (const [i, size] of run % 2 === 0 ? turns : turns.toReversed()) {
      const result = await measured(setting, wanted(setting, size, run + 1))
      if (run >= 0) runs[i]!.push(result)
    }
  }
  const sizes = list.map((size, i) => ({ size: size[by], runs: runs[i]! }))
  const sides = { bare: runs[0]!, starling: runs.at(-1)! }
  const cpuOf = (run: CostRun) => sum(run.cpuByPart)
  return { work, by, sizes, cpu: compare(sides, cpuOf, cpuOf) }
}

async function measured(
  { starling, loadGroup, extent, idle }: Omit<Setting, "readings">,
  wanted: readonly Wanted[],
): Promise<CostRun> {
  const requests = wanted.map(one => ({ ...one, path: `/api/v1${one.path}` }))
  const from = performance.now()
  const before = readCpu(starling.parts)
  const { count, latency } = await loadGroup.ask("requests", { url: starling.url, requests, inFlight })
  await pause(extent.settleSeconds)
  const used: Record<string, number> = cpuSince(starling.parts, before)
  const seconds = (performance.now() - from) / 1_000
  const each = Object.entries(used).map(([part, cpu]) => [part, (cpu - idle[part]! * seconds) / count])
  return { count, cpuByPart: Object.fromEntries(each), latency }
}
