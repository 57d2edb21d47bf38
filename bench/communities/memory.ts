/**
 * What a server takes in memory that is awake, by how many members it has, and a session in it. A
 * fresh Starling each time; garbage is collected before each look.
 */
import type { Harness } from "../harness.ts"
import { collecting, memoryAtRest } from "../idle.ts"
import { HttpConnection } from "../load/http-connection.ts"
import { figure } from "../statistics.ts"
import type { Figure } from "../statistics.ts"
import type { Community, Fixture } from "./fixture.ts"

export interface MemoryExtent {
  readonly runs: number
  readonly restSeconds: number
  /** In the largest server, and in the next smaller one, beside it. */
  readonly sessions: number
  /**
   * Members of the largest whose server is asked for by them: what is remembered of each is
   * bounded.
   */
  readonly askers: number
}

export interface MemoryRun {
  readonly members: number
  /**
   * KiB of the server's own processes: of a server of 500 channels and 250 roles that wakes, with
   * one session in it.
   */
  readonly server: number
  /** Of each session more. */
  readonly session: number
  /** Of all who asked, the first half and the second. */
  readonly askers: readonly [number, number]
}

export interface MemoryCase {
  readonly members: number
  readonly sessions: number
  readonly askers: number
  readonly runs: readonly MemoryRun[]
  readonly server: Figure
  readonly session: Figure
  readonly laterAskers: Figure
}

export async function benchMemory(
  harness: Harness,
  { communities }: Fixture,
  extent: MemoryExtent,
  say: (what: string) => void,
): Promise<MemoryCase[]> {
  // What is needed for the first server at all is there when the others come.
  const [first, ...others] = communities as [Community, ...Community[]]
  const sizes = others.slice(-2)
  const runs = sizes.map((): MemoryRun[] => [])
  for (let run = 0; run < extent.runs; run++)
    for (const [i, community] of sizes.entries()) {
      say(`memory of a server of ${community.members.toLocaleString("en")} members`)
      runs[i]!.push(await measure(harness, first, community, extent))
    }
  return sizes.map(({ members }, i) => {
    const of = (value: (run: MemoryRun) => number) => figure(runs[i]!.map(value))
    const { sessions, askers } = extent
    const figures = {
      server: of(run => run.server),
      session: of(run => run.session),
      laterAskers: of(run => run.askers[1]),
    }
    return { members, sessions, askers, runs: runs[i]!, ...figures }
  })
}

async function measure(
  harness: Harness,
  first: Community,
  community: Community,
  { restSeconds, sessions, askers }: MemoryExtent,
): Promise<MemoryRun> {
  const starling = await harness.startStarling(collecting)
  const clients = harness.startLoadGroup()
  const look = async () => (await memoryAtRest(starling.parts, restSeconds))["node"]!
  const connect = (tokens: string[], address: string) =>
    clients.loadGroup.ask("connect", { url: starling.gatewayUrl, tokens, addresses: [address], maxConcurrent: 64 })
  try {
    const wake = async ({ id, people }: Community, address: string) => {
      await connect([people[1]!.token], address)
      const http = await HttpConnection.open(starling.url)
      const { status, body } = await http.request("GET", `/api/v1/servers/${id}/channels`, people[0]!.token)
      http.close()
      if (status !== 200) throw new Error(`list of channels: ${status} ${body.toString()}`)
    }
    await wake(first, "127.0.0.30")
    const empty = await look()
    await wake(community, "127.0.0.31")
    const awake = await look()
    const some = community.people.slice(2, 2 + Math.min(sessions, community.people.length - 2))
    await connect(
      some.map(({ token }) => token),
      "127.0.0.32",
    )
    const full = await look()
    const ask = async (from: number, to: number) => {
      const asking = community.people.slice(from, to)
      const requests = asking.map(({ token }) => ({ method: "GET", path: `/api/v1/servers/${community.id}`, token }))
      await clients.loadGroup.ask("requests", { url: starling.url, requests, inFlight: 16 })
      return look()
    }
    const count = Math.min(askers, community.people.length)
    const half = Math.floor(count / 2)
    const afterHalf = await ask(0, half)
    const afterAll = await ask(half, count)
    return {
      members: community.members,
      server: awake - empty,
      session: (full - awake) / some.length,
      askers: [afterHalf - full, afterAll - afterHalf],
    }
  } finally {
    await clients.stop()
    await starling.stop()
  }
}
