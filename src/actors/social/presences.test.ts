import { afterAll, expect, test } from "vitest"
import { clusterConfig } from "../../../cluster.config.ts"
import { ManualClock } from "../../../tests/kit/manual-clock.ts"
import type { Bus } from "../../cluster/bus.ts"
import type { Directory } from "../../cluster/directory.ts"
import { defaultPresence, type PresenceChange, type Shown } from "../../domain/core/presences.ts"
import { idOf } from "../../domain/core/snowflake.ts"
import { silentLog } from "../../observability/log.ts"
import { createMetrics } from "../../observability/metrics.ts"
import type { Storage } from "../../storage/storage.ts"
import { Presences } from "./presences.ts"
import { Shard } from "../../runtime/shard.ts"

const metrics = createMetrics()
afterAll(() => metrics.close())

const [ada, server] = [1, 2].map(sequence => idOf(1, { ms: 5, sequence })) as [string, string]
const elsewhere = idOf(2, { ms: 5, sequence: 0 })

interface Notice {
  readonly worker: string
  readonly kind: string
  readonly statuses: string[]
  readonly unsent: () => void
}

/**
 * A worker that owns the home of ada, who is there, and of a server of hers; another one has a
 * member of it.
 */
function scene(servers: readonly string[]) {
  const clock = new ManualClock()
  const notices: Notice[] = []
  const dead = new Set<string>()
  let chosen: Shown = defaultPresence
  const shard = new Shard({
    number: 1,
    epoch: 1,
    lastId: undefined,
    lastRow: 0,
    positions: new Map(),
    interests: [
      { home: ada, worker: "here", from: 0 },
      { home: server, worker: "there", from: 0 },
    ],
  })
  const shards = new Map([[1, shard]])
  const release = (worker: string, _: number, homes: readonly string[]) =>
    homes.every(home => shard.removeInterest(home, worker))
  const presences = new Presences({
    host: { shard: (number: number) => shards.get(number), shards, release },
    cluster: {
      view: { self: { id: "here" }, serving: true, isDead: worker => dead.has(worker) },
      bus: {
        handle() {},
        onNotice() {},
        notify(worker: string, kind: string, body: unknown, unsent: () => void) {
          const changes = (kind === "presence" ? (body as { changes: unknown }).changes : body) as PresenceChange[]
          notices.push({ worker, kind, statuses: changes.map(({ status }) => status), unsent })
        },
      } as unknown as Bus,
      directory: { ownerOf: (number: number) => (number === 1 ? "here" : "there") } as unknown as Directory,
    },
    store: {
      chosen: async () => new Map([[ada, chosen]]),
      audiences: async () => new Map([[ada, { servers, friends: [], partners: [], blocked: [] }]]),
      noteLastSeen: async () => {},
    } as unknown as Storage["presences"],
    announced: {
      load: async () => new Map(),
      add: async () => true,
      remove: async () => true,
      replace: async () => true,
    },
    temporaryMembers: { gone() {}, back() {}, isPending: () => false },
    deliver() {},
    timing: clusterConfig.presence,
    clock,
    log: silentLog,
    metrics,
  })
  presences.adopt(shard)
  return {
    presences,
    notices,
    dead,
    shard,
    choose(shown: Shown) {
      chosen = shown
      presences.changed(ada)
    },
    /** All that goes out in a while. */
    async pass(milliseconds: number) {
      await clock.pass(milliseconds)
      return notices.splice(0)
    },
  }
}

test.each([
  ["to a worker that has listeners", [server], "presences"],
  ["to another home's owner", [elsewhere], "presence"],
])("a change that could not be sent %s is sent again until it is", async (_, servers, kind) => {
  const { presences, pass } = scene(servers)
  for (let i = 0; i < 3; i++) {
    const [notice, ...more] = await pass(300)
    expect(more).toEqual([])
    expect(notice).toMatchObject({ worker: "there", kind, statuses: ["online"] })
    notice!.unsent()
  }
  expect(await pass(300)).toHaveLength(1)
  expect(await pass(20_000)).toEqual([])
  presences.stop()
})

test("nothing is sent again to a worker that is dead", async () => {
  const { presences, pass, dead } = scene([server])
  const [notice] = await pass(300)
  dead.add("there")
  notice!.unsent()
  expect(await pass(1_000)).toEqual([])
  presences.stop()
})

test("a change is told soon, also while earlier ones settle", async () => {
  const { presences, pass, choose } = scene([server])
  expect(await pass(2_000)).toHaveLength(1)
  choose({ ...defaultPresence, status: "idle" })
  expect(await pass(300)).toMatchObject([{ statuses: ["idle"] }])
  presences.stop()
})

test("PRES2: after a fail-over of Redis what was said lately is said again, and nothing older", async () => {
  const { presences, pass, choose } = scene([server])
  expect(await pass(300)).toHaveLength(1)
  presences.doubt()
  expect(await pass(1_000)).toMatchObject([{ statuses: ["online"] }])
  choose({ ...defaultPresence, status: "idle" })
  expect(await pass(1_000)).toMatchObject([{ statuses: ["idle"] }])
  await pass(15_000)
  presences.doubt()
  expect(await pass(1_000)).toEqual([])
  presences.stop()
})

test("P14: who signs out everywhere is offline soon after it, though a session of theirs on a dead worker could still be resumed", async () => {
  const { presences, pass, dead, shard } = scene([server])
  expect(await pass(300)).toMatchObject([{ statuses: ["online"] }])
  shard.addInterest(ada, "gone")
  dead.add("gone")
  shard.removeInterest(ada, "here")
  expect(await pass(30_000)).toEqual([])
  presences.signedOut(ada)
  expect(await pass(1_000)).toMatchObject([{ statuses: ["offline"] }])
  // A worker that lives releases its users itself, once it has read that their sessions have ended.
  shard.addInterest(ada, "here")
  expect(await pass(1_000)).toMatchObject([{ statuses: ["online"] }])
  presences.signedOut(ada)
  expect(await pass(30_000)).toEqual([])
})
