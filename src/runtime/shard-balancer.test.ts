import { afterAll, expect, test } from "vitest"
import { ManualClock } from "../../tests/kit/manual-clock.ts"
import { Directory, type ShardOwner } from "../cluster/directory.ts"
import type { Member } from "../cluster/members.ts"
import { silentLog } from "../observability/log.ts"
import { createMetrics } from "../observability/metrics.ts"
import type { Shard } from "./shard.ts"
import { ShardBalancer } from "./shard-balancer.ts"

const metrics = createMetrics()
afterAll(() => metrics.close())

const member = (slot: number): Member => ({ id: `w${slot}`, role: "web", host: "test", slot })
const [self, other] = [member(0), member(1)]

/** PostgreSQL's rows of shards, and a worker beside another that may be its only place. */
function scene(count = 4) {
  const clock = new ManualClock()
  const rows = new Map<number, ShardOwner>()
  for (let shard = 0; shard < count; shard++) rows.set(shard, { shard, owner: null, epoch: 0 })
  const dead = new Set<string>()
  const here = new Map<number, Shard>()
  let places: readonly Member[] = [self]
  let looks = 0
  const membership = { announceLeaving: async () => {} }
  const told: ShardOwner[] = []
  const change = (
    seen: readonly Pick<ShardOwner, "shard" | "epoch">[],
    taker: string,
    from: (row: ShardOwner) => boolean,
  ) =>
    seen.flatMap(({ shard, epoch }) => {
      const row = rows.get(shard)!
      if (row.epoch !== epoch || !from(row)) return []
      const next = { shard, owner: dead.has(taker) ? null : taker, epoch: epoch + 1 }
      rows.set(shard, next)
      return [next]
    })
  const store = {
    async shards(only?: readonly number[]) {
      looks++
      return (only ?? [...rows.keys()]).map(shard => rows.get(shard)!)
    },
    epochs: async () => `${rows.size} ${[...rows.values()].reduce((sum, { epoch }) => sum + epoch, 0)}`,
    take: async (seen: readonly ShardOwner[], taker: string) => change(seen, taker, ({ owner }) => owner === null),
    handOver: async (seen: readonly Pick<ShardOwner, "shard" | "epoch">[], owner: string, taker: string) =>
      change(seen, taker, row => row.owner === owner),
    outbox: async () => [],
  }
  const host = {
    shards: here,
    shard: (number: number) => here.get(number),
    addShard: (shard: Shard) => void here.set(shard.number, shard),
    removeShard: (shard: Shard) => {
      shard.closing = true
      if (here.get(shard.number) === shard) here.delete(shard.number)
    },
    barrier: async () => {},
  }
  const directory = new Directory(shards => store.shards(shards), clock)
  const nothingKnown = <T>(shards: readonly number[], value: T) => new Map(shards.map(shard => [shard, value]))
  const balancer = new ShardBalancer({
    cluster: {
      view: { self, candidates: () => places, isLiving: worker => !dead.has(worker) },
      dead: { note() {}, takeForgotten: () => [] },
      directory,
    },
    host,
    outbox: { republish: async () => {}, dropInterest() {} },
    logs: { positions: async () => new Map(), append: async () => [], drop: async () => {} },
    interests: {
      load: async shards => nothingKnown(shards, { list: [], isComplete: true }),
      replace: async () => {},
    },
    store,
    peers: {
      doubtfulLogs: async () => [],
      askInterests: async () => [],
      announce: rows => void told.push(...rows),
      async announceLeaving() {
        await membership.announceLeaving()
        places = places.filter(({ id }) => id !== self.id)
      },
      served: async () => {},
    },
    observers: [],
    timing: { rebalanceEveryMs: 500, shardsAtATime: 32 },
    clock,
    log: silentLog,
    metrics,
  })
  return {
    balancer,
    store,
    host,
    rows,
    dead,
    told,
    directory,
    looks: () => looks,
    pass: (milliseconds: number) => clock.pass(milliseconds),
    membership,
    owners: () => new Set([...rows.values()].map(({ owner }) => owner)),
    /** Whose shards should be where. */
    placeAt(...now: readonly Member[]) {
      places = now
    },
    give(shard: number, owner: string | null) {
      const row = { shard, owner, epoch: rows.get(shard)!.epoch + 1 }
      rows.set(shard, row)
      return row
    },
  }
}

test("BAL6: a hand-over that is carried out after it was given up gives nothing away", async () => {
  const { balancer, store, host, rows, placeAt, told } = scene()
  await balancer.balance()
  const former = host.shard(0)!
  const { handOver } = store
  let late = () => Promise.resolve<readonly ShardOwner[]>([])
  store.handOver = async (...words) => {
    store.handOver = handOver
    late = () => handOver(...words)
    throw new Error("no answer")
  }
  placeAt(other)
  await expect(balancer.balance()).rejects.toThrow("no answer")
  await late()
  // Whatever they say, it is the same, and everybody was told.
  for (const [shard, { owner, epoch }] of rows) {
    expect([owner, host.shard(shard)?.epoch, host.shard(shard)?.closing]).toEqual([self.id, epoch, false])
    expect(told.findLast(row => row.shard === shard)).toEqual({ shard, owner, epoch })
  }
  expect(former.closing).toBe(true)
  await balancer.balance()
  expect([...rows.values()].map(({ owner }) => owner)).toEqual([other.id, other.id, other.id, other.id])
})

test("BAL6: where a hand-over has happened and nobody was told so, everybody is", async () => {
  const { balancer, store, host, rows, placeAt, told, directory } = scene()
  await balancer.balance()
  const { handOver } = store
  store.handOver = async (...words) => {
    store.handOver = handOver
    await handOver(...words)
    throw new Error("no answer")
  }
  placeAt(other)
  await expect(balancer.balance()).rejects.toThrow("no answer")
  expect(host.shards.size).toBe(0)
  expect([...rows.values()].map(({ owner }) => owner)).toEqual(Array(4).fill(other.id))
  expect(told.slice(-4)).toEqual([...rows.values()])
  expect(directory.ownerOf(0)).toBe(other.id)
})

test("who owns what is read again when somebody has changed it, and otherwise once a minute", async () => {
  const { balancer, host, looks, give, placeAt, pass } = scene()
  placeAt(self, other)
  for (const shard of [0, 1, 2, 3]) give(shard, other.id)
  const there = () => [...host.shards.keys()]
  await balancer.start()
  // What another should not have is its own affair; nothing is to be taken or given here.
  expect(there()).toEqual([])
  await pass(6_000)
  const before = looks()
  await pass(50_000)
  expect(looks()).toBe(before)
  await pass(10_000)
  expect(looks()).toBe(before + 1)
  // A change of which no notice came.
  give(2, self.id)
  await pass(6_000)
  expect(there()).toContain(2)
  balancer.stop()
})

test("what is asked for here and was given to this worker without its hearing of it is opened, with few looks however many ask", async () => {
  const { balancer, host, looks, give, placeAt, pass } = scene()
  placeAt(other)
  for (const shard of [0, 1, 2, 3]) give(shard, other.id)
  await balancer.balance()
  const before = looks()
  placeAt(self)
  give(0, self.id)
  give(1, self.id)
  for (let i = 0; i < 1_000; i++) balancer.seek(i % 2)
  await pass(0)
  expect([...host.shards.keys()]).toEqual([0, 1])
  expect(looks() - before).toBeLessThanOrEqual(3)
  // Who is asked for what is another's looks seldom, and does not cease to look.
  for (let i = 0; i < 100; i++) {
    balancer.seek(2)
    await pass(10)
  }
  expect(looks() - before).toBeLessThanOrEqual(20)
  give(2, self.id)
  balancer.seek(2)
  await pass(200)
  expect(host.shard(2)).toBeDefined()
})

test("a shard that was given to one that has just died is taken as soon as that is told", async () => {
  const { balancer, host, placeAt, give, pass } = scene()
  placeAt(other)
  for (const shard of [0, 1, 2, 3]) give(shard, other.id)
  await balancer.balance()
  placeAt(self)
  balancer.noteOwners([give(0, null)])
  await pass(0)
  expect([...host.shards.keys()]).toEqual([0])
})

test("who gives a shard to one that is dead looks again soon", async () => {
  const { balancer, host, placeAt, dead, owners, pass } = scene()
  await balancer.start()
  dead.add(other.id)
  placeAt(other)
  await balancer.balance()
  expect(owners()).toEqual(new Set([null]))
  // The death is heard of.
  placeAt(self)
  await pass(500)
  expect(host.shards.size).toBe(4)
  expect(owners()).toEqual(new Set([self.id]))
  balancer.stop()
})

test("BAL5: leaving is tried again after a renewal, a barrier and a hand-over that failed", async () => {
  const { balancer, store, host, owners, placeAt, membership, pass } = scene()
  await balancer.start()
  placeAt(self, other)
  const failing = <K extends string, T extends Record<K, (...words: never[]) => Promise<unknown>>>(of: T, name: K) => {
    const works = of[name]
    of[name] = (async () => {
      of[name] = works
      throw new Error("not now")
    }) as unknown as T[K]
  }
  failing(membership, "announceLeaving")
  failing(host, "barrier")
  failing(store, "handOver")
  const left = balancer.leave()
  await pass(1_000)
  await left
  expect(host.shards.size).toBe(0)
  expect(owners()).toEqual(new Set([other.id]))
  balancer.stop()
})

test("BAL5: what cannot be given away is not waited for for ever", async () => {
  const { balancer, host, placeAt, pass } = scene()
  await balancer.start()
  placeAt(self, other)
  host.barrier = () => Promise.reject(new Error("never"))
  const left = expect(balancer.leave()).rejects.toThrow("never")
  await pass(4_000)
  await left
  balancer.stop()
})

test("BAL5: who is alone keeps what nobody is there to take", async () => {
  const { balancer, host } = scene()
  await balancer.balance()
  await balancer.leave()
  expect(host.shards.size).toBe(4)
})
