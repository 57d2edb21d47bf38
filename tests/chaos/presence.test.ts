/** The judge of the run's end (P14), against workers that are well and against workers with a bug. */
import { Presences as WorkerPresences } from "../../src/actors/social/presences.ts"
import { presence } from "./checks/presence.ts"
import { Recorder } from "./history.ts"
import { populate, type Person } from "./people.ts"
import { Presences } from "./presence.ts"
import type { Cluster } from "../kit/cluster.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

/** Everybody comes and goes; what is found then. */
async function everybodyLeaves(cluster: Cluster, lateMs?: number): Promise<{ found: string[]; gone: Person[] }> {
  const workers = await cluster.boot(2)
  const urls = workers.map(({ url }) => url)
  const population = await populate(urls[0]!, cluster.redisPrefix.replaceAll(/[^a-z0-9]/g, "").slice(-12), {
    writers: 1,
    wanderers: 0,
    subjects: 0,
    communities: 1,
  })
  const recorder = new Recorder()
  const presences = new Presences(population, { urls, hosts: [] }, recorder, lateMs)
  try {
    await until("everybody is live", () => presences.isLive, { timeoutMs: 30_000 })
    await presences.end({ patient: false })
  } finally {
    presences.close()
  }
  const looks = recorder.entries.filter(({ type }) => type === "presences")
  expect(looks).toHaveLength(2)
  const { ghosts, leavers } = population
  return { found: presence(recorder.entries).map(({ what }) => what), gone: [...ghosts, ...leavers] }
}

test("P14: a user who logs out in the end of a run is online to nobody, whether they ask or are told", async ({
  cluster,
}) => {
  expect((await everybodyLeaves(cluster)).found).toEqual([])
})

test("P14: ghosts are found: users of whom no worker notices that their last session has ended", async ({
  cluster,
}) => {
  const { adopt } = WorkerPresences.prototype
  WorkerPresences.prototype.adopt = function (shard, announced) {
    const listen = shard.onInterestChanged.bind(shard)
    shard.onInterestChanged = listener => listen(home => shard.interests.has(home) && listener(home))
    adopt.call(this, shard, announced)
  }
  try {
    const { found, gone } = await everybodyLeaves(cluster, 5_000)
    for (const { name } of gone) {
      expect(found).toContain(`${name} is offline, and the observer found dnd`)
      expect(found).toContain(`${name} is offline, and the observer was told dnd`)
    }
  } finally {
    WorkerPresences.prototype.adopt = adopt
  }
})
