/**
 * A server is deleted, with all its members: how long others wait whose server has the same owner
 * and so the same lane. A message every few milliseconds goes to one of these meanwhile.
 */
import { shardOf } from "../../src/domain/core/snowflake.ts"
import type { Harness } from "../harness.ts"
import { HttpConnection } from "../load/http-connection.ts"
import { figure } from "../statistics.ts"
import type { Figure } from "../statistics.ts"
import { newRun, pause } from "../trials.ts"
import { plantTwin } from "./fixture.ts"
import type { Community, Fixture } from "./fixture.ts"

const everyMs = 5

export interface DeletionExtent {
  readonly runs: number
  /** Of messages before and after. */
  readonly aroundSeconds: number
}

export interface DeletionRun {
  /** Milliseconds until the deletion was answered. */
  readonly answeredMs: number
  /**
   * The longest that a message to another server of the same owner took while it went on; and
   * before.
   */
  readonly longestMs: number
  readonly longestBeforeMs: number
}

export interface DeletionCase {
  readonly members: number
  readonly runs: readonly DeletionRun[]
  readonly answeredMs: Figure
  readonly longestMs: Figure
  readonly longestBeforeMs: Figure
}

export async function benchDeletion(
  harness: Harness,
  { communities }: Fixture,
  extent: DeletionExtent,
  say: (what: string) => void,
): Promise<DeletionCase[]> {
  say("servers to be deleted")
  const doomed: { community: Community; twins: Community[] }[] = []
  // Theirs is the shard of the server that is written to meanwhile, and so its owner.
  const probe = communities[0]!
  const shard = shardOf(probe.id)
  let at = 0
  for (const community of [communities[0]!, communities.at(-1)!]) {
    const twins: Community[] = []
    for (let run = 0; run <= extent.runs; run++)
      twins.push(await plantTwin(harness.databaseUrl, community, { shard, at: at++ }))
    doomed.push({ community, twins })
  }
  const starling = await harness.startStarling()
  const cases: DeletionCase[] = []
  try {
    for (const { community, twins } of doomed) {
      say(`deleting servers of ${community.members.toLocaleString("en")} members`)
      const runs: DeletionRun[] = []
      // The first is not counted.
      for (const twin of twins) runs.push(await measure(starling.url, twin, probe, extent))
      const counted = runs.slice(1)
      const of = (value: (run: DeletionRun) => number) => figure(counted.map(value))
      cases.push({
        members: community.members,
        runs: counted,
        answeredMs: of(run => run.answeredMs),
        longestMs: of(run => run.longestMs),
        longestBeforeMs: of(run => run.longestBeforeMs),
      })
    }
  } finally {
    await starling.stop()
  }
  return cases
}

async function measure(
  url: string,
  twin: Community,
  probe: Community,
  { aroundSeconds }: DeletionExtent,
): Promise<DeletionRun> {
  const deleting = await HttpConnection.open(url)
  const posting = await HttpConnection.open(url)
  const run = newRun()
  const token = probe.people[0]!.token
  const path = `/api/v1/channels/${probe.plainChannel}/messages`
  let longest = 0
  const state = { isOver: false }
  const post = async () => {
    for (let i = 0; !state.isOver; i++) {
      const from = performance.now()
      const body = JSON.stringify({ content: "is anybody there", nonce: `${run}-${i}` })
      const reply = await posting.request("POST", path, token, body)
      if (reply.status !== 200) throw new Error(`POST ${path}: ${reply.status} ${reply.body.toString()}`)
      const took = performance.now() - from
      longest = Math.max(longest, took)
      if (took < everyMs) await pause((everyMs - took) / 1_000)
    }
  }
  const posts = post()
  posts.catch(() => undefined)
  try {
    await pause(aroundSeconds)
    const longestBeforeMs = longest
    longest = 0
    const from = performance.now()
    const reply = await deleting.request("DELETE", `/api/v1/servers/${twin.id}`, twin.people[0]!.token)
    if (reply.status !== 200) throw new Error(`DELETE of a server: ${reply.status} ${reply.body.toString()}`)
    const answeredMs = performance.now() - from
    await pause(aroundSeconds)
    state.isOver = true
    await posts
    return { answeredMs, longestMs: longest, longestBeforeMs }
  } finally {
    state.isOver = true
    deleting.close()
    posting.close()
  }
}
