/**
 * What it costs to do something in a server, by how many members it has. As many sessions listen in
 * each, so nothing but the number of members differs; the sizes take turns.
 */
import type { Harness, Starling } from "../harness.ts"
import type { LoadGroup } from "../load/load-group.ts"
import type { Wanted } from "../load/load-process.ts"
import { idleCpu } from "../posts.ts"
import { cpuSince, readCpu } from "../processes.ts"
import type { LatencySummary } from "../statistics.ts"
import { compare, newRun, pause, sum } from "../trials.ts"
import type { Comparison } from "../trials.ts"
import type { Community, Fixture } from "./fixture.ts"

const inFlight = 4
const pageSize = 50
/** READY is measured with several sessions of each, as a small server has few members. */
const sessionsOfEach = 6
/** They are told of everything. */
const allIntents = 65_535

export interface GrowthExtent {
  readonly runs: number
  /** Sessions in each server. */
  readonly listeners: number
  /** How often in a run each thing is done, times this. */
  readonly share: number
  readonly idleSeconds: number
  readonly settleSeconds: number
}

export interface GrowthRun {
  readonly count: number
  /** Microseconds of CPU each, by part, without what an idle server takes meanwhile. */
  readonly cpuByPart: Record<string, number>
  readonly latency: LatencySummary
}

export interface GrowthCase {
  readonly work: string
  /** From the smallest server to the largest. */
  readonly sizes: readonly { readonly members: number; readonly runs: readonly GrowthRun[] }[]
  /** The largest beside the smallest. */
  readonly cpu: Comparison
  readonly p50: Comparison
}

export interface GrowthResult {
  readonly listeners: number
  readonly channels: number
  readonly roles: number
  readonly cases: readonly GrowthCase[]
}

interface Setting {
  readonly starling: Starling
  readonly loadGroup: LoadGroup
  readonly fixture: Fixture
  readonly extent: GrowthExtent
  /** Microseconds a second. */
  readonly idle: Readonly<Record<string, number>>
}

/** Something that is done in a server many times over. */
interface Step {
  readonly name: string
  run(setting: Setting, community: Community, run: number): Promise<GrowthRun>
}

const times = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i))
const often = (count: number, { extent }: Setting) => Math.max(4, Math.round(count * extent.share))

/**
 * What is done one after the other in a server before it is the next one's turn: users who join
 * have to leave.
 */
const steps: readonly (readonly Step[])[] = [
  [
    asking("join by invite", ({ invite }, { fixture }) =>
      fixture.strangers.map(({ token }) => ({ method: "POST", path: `/channels/invites/${invite}`, token })),
    ),
    asking("leave", ({ id }, { fixture }) =>
      fixture.strangers.map(({ token }) => ({ method: "POST", path: `/servers/${id}/leave`, token })),
    ),
  ],
  [
    asking(`a page of ${pageSize} members from the middle`, ({ id, people, middle }, setting) => {
      const path = `/servers/${id}/members?limit=${pageSize}&after=${middle}`
      return times(often(200, setting), i => ({ method: "GET", path, token: people[i % people.length]!.token }))
    }),
  ],
  [
    asking("list of channels", ({ id, people }, setting) => {
      const path = `/servers/${id}/channels`
      return times(often(100, setting), i => ({ method: "GET", path, token: people[i % people.length]!.token }))
    }),
  ],
  [
    asking("colour of a role", (community, setting, run) =>
      times(often(200, setting), i => roleEdit(community, i, { color: `#${100_000 + run * 1_000 + i}` })),
    ),
  ],
  [
    asking("permission of a role", (community, setting, run) =>
      times(often(100, setting), i =>
        roleEdit(community, i, { permissions: { "messages.send": true, "messages.manage": run % 2 === 0 } }),
      ),
    ),
  ],
  [
    asking("give a role", (community, setting) => roleGifts("PUT", community, setting)),
    asking("take a role", (community, setting) => roleGifts("DELETE", community, setting)),
  ],
  [
    asking("message", ({ plainChannel, people }, setting) => {
      const nonces = newRun()
      return times(often(400, setting), i => ({
        method: "POST",
        path: `/channels/${plainChannel}/messages`,
        token: people[i % people.length]!.token,
        body: JSON.stringify({ content: "the quick brown fox jumps over the lazy dog", nonce: `${nonces}-${i}` }),
      }))
    }),
  ],
  [{ name: "READY", run: identifying }],
]

const roleEdit = ({ id, roles, people }: Community, i: number, patch: object): Wanted => ({
  method: "PATCH",
  path: `/servers/${id}/roles/${roles[i % roles.length]!}`,
  token: people[0]!.token,
  body: JSON.stringify(patch),
})

function roleGifts(method: "PUT" | "DELETE", { id, roles, people }: Community, setting: Setting): Wanted[] {
  const others = people.slice(1)
  return times(Math.min(often(100, setting), others.length), i => ({
    method,
    path: `/servers/${id}/members/${others[i]!.id}/roles/${roles.at(-1)!}`,
    token: people[0]!.token,
  }))
}

/** A step of requests, a few in flight. */
function asking(name: string, wanted: (community: Community, setting: Setting, run: number) => Wanted[]): Step {
  return {
    name,
    async run(setting, community, run) {
      const { starling, loadGroup } = setting
      const requests = wanted(community, setting, run).map(one => ({ ...one, path: `/api/v1${one.path}` }))
      return measured(setting, () => loadGroup.ask("requests", { url: starling.url, requests, inFlight }))
    },
  }
}

/** From IDENTIFY to READY, all at once; connecting is not counted. */
async function identifying(setting: Setting, { people }: Community): Promise<GrowthRun> {
  const { starling, loadGroup } = setting
  const some = people.slice(1, 1 + Math.max(4, Math.round(64 * setting.extent.share)))
  const tokens = times(some.length * sessionsOfEach, i => some[i % some.length]!.token)
  await loadGroup.ask("open", { url: starling.gatewayUrl, tokens, addresses: ["127.0.0.40"], maxConcurrent: 64 })
  await pause(0.2)
  try {
    return await measured(setting, async () => {
      const { ready } = await loadGroup.ask("identify", null)
      return { count: tokens.length, latency: ready }
    })
  } finally {
    await loadGroup.ask("disconnect", null)
  }
}

/** What it costs, with what comes of it a moment later. */
async function measured(
  { starling, extent, idle }: Setting,
  work: () => Promise<{ count: number; latency: LatencySummary }>,
): Promise<GrowthRun> {
  const from = performance.now()
  const before = readCpu(starling.parts)
  const { count, latency } = await work()
  await pause(extent.settleSeconds)
  const used: Record<string, number> = cpuSince(starling.parts, before)
  const seconds = (performance.now() - from) / 1_000
  const each = Object.entries(used).map(([part, cpu]) => [part, (cpu - idle[part]! * seconds) / count])
  return { count, cpuByPart: Object.fromEntries(each), latency }
}

export async function benchGrowth(
  harness: Harness,
  fixture: Fixture,
  extent: GrowthExtent,
  say: (what: string) => void,
): Promise<GrowthResult> {
  const { communities } = fixture
  const starling = await harness.startStarling()
  const listeners = harness.startLoadGroup()
  const clients = harness.startLoadGroup()
  try {
    say(`${extent.listeners} sessions in each server: connecting`)
    const kinds = [{ query: "", intents: allIntents, hears: true }]
    for (const [i, { people }] of communities.entries()) {
      const tokens = times(extent.listeners, k => people[k % people.length]!.token)
      const addresses = [`127.0.0.${20 + i}`]
      await listeners.loadGroup.ask("connect", {
        url: starling.gatewayUrl,
        tokens,
        addresses,
        maxConcurrent: 32,
        kinds,
      })
    }
    await pause(extent.settleSeconds)
    const idle = await idleCpu(starling.parts, extent.idleSeconds)
    const setting = { starling, loadGroup: clients.loadGroup, fixture, extent, idle }
    const cases: GrowthCase[] = []
    for (const together of steps) {
      say(together.map(({ name }) => name).join(", "))
      cases.push(...(await measureSteps(setting, together)))
    }
    const [{ channels, roles }] = communities as [Community]
    return { listeners: extent.listeners, channels: channels.length, roles: roles.length + 1, cases }
  } finally {
    await clients.stop()
    await listeners.stop()
    await starling.stop()
  }
}

/**
 * The sizes take turns, and which is first changes; a first round is not counted: code gets
 * compiled, homes wake.
 */
async function measureSteps(setting: Setting, together: readonly Step[]): Promise<GrowthCase[]> {
  const { communities } = setting.fixture
  const runs = together.map(() => communities.map((): GrowthRun[] => []))
  for (let run = -1; run < setting.extent.runs; run++) {
    const turns = [...communities.entries()]
    for (const [size, community] of run % 2 === 0 ? turns : turns.toReversed())
      for (const [i, step] of together.entries()) {
        const result = await step.run(setting, community, run + 1)
        if (run >= 0) runs[i]![size]!.push(result)
      }
  }
  return together.map(({ name }, i) => {
    const sizes = communities.map(({ members }, size) => ({ members, runs: runs[i]![size]! }))
    const sides = { bare: sizes[0]!.runs, starling: sizes.at(-1)!.runs }
    const of = (value: (run: GrowthRun) => number) => compare(sides, value, value)
    return { work: name, sizes, cpu: of(run => sum(run.cpuByPart)), p50: of(run => run.latency.p50) }
  })
}
