import { randomUUID } from "node:crypto"
import { setTimeout as sleep } from "node:timers/promises"
import fc from "fast-check"
import { afterAll, beforeAll, expect, inject, test } from "vitest"
import { histories, isAllowed, LeaseModel, type PlantedBug } from "../../tests/kit/lease-model.ts"
import type { RateLimit } from "../contract/core/limits.ts"
import { Leases, type LeaseBounds } from "./leases.ts"
import { routeBucket } from "./admission.ts"
import { openBuckets, type BucketAnswer, type BucketQuestion } from "./bucket-calls.ts"
import { openRedis } from "./redis.ts"

const redis = openRedis(inject("redis"), "leases test", () => {})
beforeAll(() => redis.connect())
afterAll(() => redis.quit())

const holds = (history: ReturnType<typeof histories>, counts: { leased: number }, bug?: PlantedBug) =>
  fc.asyncProperty(history, async ({ limits, leaseMs, actions }) => {
    const model = new LeaseModel(redis, limits, leaseMs, bug)
    await model.run(actions)
    counts.leased += model.leased
    const moments = (only: boolean) =>
      model.uses.flatMap(({ at, hasRoute }) => (hasRoute || !only ? [at] : [])).toSorted((a, b) => a - b)
    expect(isAllowed(limits.global, moments(false)), "global").toBe(true)
    expect(isAllowed(limits.user, moments(false)), "user").toBe(true)
    expect(isAllowed(limits.route, moments(true)), "route").toBe(true)
  })

test("P16, LEASE1, LEASE2: in no stretch of time do workers with leases let in more than a limit says, whatever stops or dies", async () => {
  const counts = { leased: 0 }
  await fc.assert(holds(histories("token", "sliding", "fixed"), counts), {
    numRuns: Number(process.env["LEASE_HISTORIES"] ?? 200),
  })
  expect(counts.leased).toBeGreaterThan(200)
})

const bugs: PlantedBug[] = [
  {
    name: "what is lent counts from the beginning of the lease in a sliding window",
    algorithm: "sliding",
    from: "local after = insert(state, ends, count)",
    to: "local after = insert(state, now, count)",
  },
  {
    name: "a token bucket becomes full although some of it is lent",
    algorithm: "token",
    from: "full = math.max(full, ends + lent * interval)\n    lent, at = lent - count, at + 8\n  end\n  return math.max(full, now + lent * interval)",
    to: "lent, at = lent - count, at + 8\n  end\n  return full",
  },
  {
    name: "a lease is given back twice",
    algorithm: "fixed",
    from: "if verdict == 'settle' then return",
    to: "if verdict == 'settle' then settle_lease(caller, percent, address, bucket, name, lease) return",
  },
  {
    name: "a lease that ends with the next request is given back twice",
    algorithm: "fixed",
    from: "if lease ~= '' then\n    global_before",
    to: "if lease ~= '' then\n    settle_lease(caller, percent, address, bucket, name, lease)\n    states = redis.call('MGET', caller_key, route_key or caller_key)\n    both, route_before = states[1] or '', states[2] or ''\n    if both ~= '' then global_before, own_before = sub(both, 3, 2 + length), sub(both, 3 + length) end\n    global_before",
  },
  {
    name: "a lease outlives its fixed window",
    algorithm: "fixed",
    from: "math.min(ms, math.floor(unpack('>d', state) - now))",
    to: "ms",
  },
  {
    name: "a lease of an earlier fixed window goes back into the next",
    algorithm: "fixed",
    from: "ends > now and ends - window <= taken and taken < ends",
    to: "true",
  },
  {
    name: "a lease lasts longer in the worker than in Redis",
    algorithm: "fixed",
    from: "string.format('%s %d %d', text, more, ms)",
    to: "string.format('%s %d %d', text, more, 3 * ms)",
  },
]

test.each(bugs)("P16: a planted bug is found: $name", async bug => {
  const property = holds(histories(bug.algorithm), { leased: 0 }, bug)
  const { failed } = await fc.check(property, { numRuns: 2_000, seed: 7, endOnFailure: true })
  expect(failed).toBe(true)
})

test("LEASE2: what goes back with a request that is refused has gone back", async () => {
  const limit = (algorithm: RateLimit["algorithm"], requests: number): RateLimit => ({
    algorithm, requests, seconds: 600, burst: 0, scope: "user",
  }) // prettier-ignore
  const prefix = `test-${randomUUID()}:`
  const asking = (common: { global: RateLimit; user: RateLimit }) =>
    openBuckets(redis, prefix, { ...common, ip: common.user }, 20)
  const { text: bucket, name } = routeBucket(limit("sliding", 100), "GET /things")
  const one = { kind: "ok", caller: "u:7", percent: 100, address: "", bucket, name, more: 0, share: 3, ended: "" }
  const user = limit("sliding", 1_000)
  const buckets = asking({ global: limit("token", 10), user })
  const { lent, nowMs, lentForMs } = await buckets.ask({ ...one, more: 3 })
  expect(lent).toBe(3)
  // A token bucket takes nothing back once the lease is over: so that one is full, and the other is not.
  await sleep(lentForMs + 10)
  for (let i = 0; i < 6; i++) expect((await buckets.ask(one)).verdict).toBe("ok")
  const ended = `${nowMs} ${nowMs + lentForMs} 3 3`
  expect(await buckets.ask({ ...one, ended })).toMatchObject({ verdict: "limited", bucket: 0 })
  // Where the limits of all are of another kind, only the route's is still what it was.
  const { remaining } = await asking({ global: limit("fixed", 1_000), user }).ask(one)
  expect(remaining).toBe(100 - 1 - 6 - 1)
})

/** Leases without Redis: every question is answered with what `answer` says. */
function scene(bounds: Partial<LeaseBounds> = {}, answer: Partial<BucketAnswer> = {}) {
  const asked: BucketQuestion[] = []
  const timers: (() => void)[] = []
  /** By default too narrow a route for leases in advance. */
  const world = { now: 0, isServing: true, isDown: false, capacity: 15 }
  const leases = new Leases({
    bounds: { leaseTokens: 16, leaseMs: 1_000, maxLeases: 10, ...bounds },
    clock: {
      monotonic: () => world.now,
      every(_, action) {
        timers.push(action)
        return { stop: () => void timers.splice(timers.indexOf(action), 1) }
      },
    },
    isServing: () => world.isServing,
    workers: () => 2,
    capacity: 60,
    async ask(question) {
      asked.push(question)
      if (world.isDown) throw new Error("Redis is away")
      return { verdict: "ok", bucket: 1, limit: 1_000, remaining: 900, waitMs: 0, nowMs: 5_000, lent: question.more, lentForMs: 1_500, ...answer }
    },
  }) // prettier-ignore
  const lease = (name = "", user = "7") => leases.of(user, { text: "", capacity: world.capacity }, 100, name, "")!
  return {
    leases, lease, asked, timers, world,
    /** @returns whether it was let in without asking */
    async request(name = "", user = "7"): Promise<boolean> {
      const one = lease(name, user)
      if (leases.spend(one, world.now)) return true
      await leases.ask(one)
      return false
    },
    sweep: () => timers.forEach(action => action()),
    more: () => asked.filter(({ kind }) => kind === "ok").map(({ more }) => more),
    settled: () => asked.flatMap(({ ended }) => (ended === "" ? [] : [ended])),
  } // prettier-ignore
}

test("LEASE4: a lease is at most four times what was let in within the one before; where a route is narrow, a caller who asks seldom holds nothing", async () => {
  const { request, more, world, leases } = scene()
  for (let i = 0; i < 100; i++) await request()
  expect(more()).toEqual([0, 3, 15, 15, 15, 15, 15, 15])
  const rare = scene()
  for (let i = 0; i < 20; i++) {
    await rare.request()
    rare.world.now += 2_000
  }
  expect(rare.more()).toEqual(Array(20).fill(0))
  expect(rare.leases.held).toBe(0)
  // Once a second: what was let in within the second before.
  world.now += 1_000
  await request()
  expect(more().at(-1)).toBe(14)
  expect(leases.held).toBe(14)
})

test("LEASE4: in advance a user is lent for one route at a time, by all workers together at most half of what remains", async () => {
  const prefix = `test-${randomUUID()}:`
  const route: RateLimit = { requests: 60, seconds: 60, burst: 20, algorithm: "sliding", scope: "user" }
  const common = { global: { ...route, requests: 1_000 }, user: { ...route, requests: 1_000 }, ip: route }
  const { text, name, capacity } = routeBucket(route, "GET /things")
  // Of what each finds; fewer than four are not worth it.
  const lentOf80 = [[19], [19, 14], [13, 10, 9], [4, 4, 4, 4, 0, 0, 0, 0]]
  for (const expected of lentOf80) {
    const workers = expected.length
    let remaining = capacity
    const lent: number[] = []
    for (let worker = 0; worker < workers; worker++) {
      const buckets = openBuckets(redis, `${prefix}${workers}:`, common, 60_000)
      const leases = new Leases({
        bounds: { leaseTokens: 1_000, leaseMs: 40_000, maxLeases: 10 },
        clock: { monotonic: () => 0, every: () => ({ stop() {} }) },
        isServing: () => true,
        workers: () => workers,
        capacity: 1_000,
        ask: buckets.ask,
      })
      const ask = async (name: string) => (await leases.ask(leases.of("7", { text, capacity }, 100, name, "")!))!
      const [first, second] = [await ask(name), await ask(":r:other")]
      remaining -= 1 + first.lent
      expect(first.remaining).toBe(remaining + first.lent)
      if (first.lent > 0) expect(second.lent).toBe(0)
      lent.push(first.lent)
    }
    expect(lent).toEqual(expected)
  }
})

test("twenty requests of a user in a row ask Redis twice through one worker, three times through two", async () => {
  const limit = (requests: number): RateLimit => ({
    requests, seconds: 60, burst: 10, algorithm: "sliding", scope: "user",
  }) // prettier-ignore
  const route = routeBucket(limit(30), "GET /things")
  const common = { global: limit(1_000), user: limit(80), ip: limit(80) }
  for (const [count, questions] of [
    [1, 2],
    [2, 3],
  ] as const) {
    const buckets = openBuckets(redis, `test-${randomUUID()}:`, common, 60_000)
    let asked = 0
    const workers = Array.from(
      { length: count },
      () =>
        new Leases({
          bounds: { leaseTokens: 16, leaseMs: 1_000, maxLeases: 10 },
          clock: { monotonic: () => 0, every: () => ({ stop() {} }) },
          isServing: () => true,
          workers: () => 2,
          capacity: 90,
          ask(question) {
            asked++
            return buckets.ask(question)
          },
        }),
    )
    for (let i = 0; i < 20; i++) {
      const leases = workers[i % count]!
      const lease = leases.of("7", route, 100, route.name, "")!
      if (!leases.spend(lease, 0)) expect((await leases.ask(lease))?.verdict).toBe("ok")
    }
    expect(asked).toBe(questions)
  }
})

test("LEASE4: nothing is lent in advance while few of those who come come again, but to one in sixteen", async () => {
  const { request, more, world, sweep, leases } = scene()
  world.capacity = 40
  const isSpared: boolean[] = []
  const come = async (user: number, requests: number) => {
    for (let i = 0; i < requests; i++) isSpared.push(await request("", `${user}`))
    world.now += 1_000
    sweep()
    world.now += 1_000
    sweep()
  }
  for (let user = 0; user < 20; user++) await come(user, 2)
  expect(more()).toEqual(Array(20).fill(9))
  expect(isSpared.filter(Boolean)).toHaveLength(20)
  expect(leases.held).toBe(0)
  for (let user = 100; user < 400; user++) await come(user, 1)
  const lent = more().slice(20)
  expect(lent.slice(0, 29)).toEqual(Array(29).fill(9))
  expect(lent.slice(30).filter(count => count > 0).length).toBe(Math.floor(270 / 16))
  for (let user = 500; user < 1_500; user++) await come(user, 2)
  expect(more().slice(-100)).toEqual(Array(100).fill(9))
})

test("LEASE2: what is left of a lease goes back once, and is spent no more", async () => {
  const { request, sweep, settled, world, leases } = scene()
  for (let i = 0; i < 8; i++) await request()
  expect(leases.held).toBe(13)
  world.now += 999
  sweep()
  expect(leases.held).toBe(13)
  world.now += 1
  sweep()
  expect(leases.held).toBe(0)
  const before = settled().length
  expect(settled().at(-1)).toBe("5000 6500 15 13")
  world.now += 100
  sweep()
  expect(await request()).toBe(false)
  expect(settled()).toHaveLength(before)
})

test("LEASE2: a call whose outcome is not known is not repeated, and lends nothing", async () => {
  const { request, sweep, settled, world, leases, lease } = scene()
  for (let i = 0; i < 4; i++) await request()
  expect(leases.held).toBe(1)
  world.now += 1_000
  world.isDown = true
  sweep()
  const told = settled().length
  await expect(leases.ask(lease())).rejects.toThrow("Redis is away")
  world.isDown = false
  sweep()
  expect(settled()).toHaveLength(told)
  expect(leases.held).toBe(0)
})

test("LEASE1: a lease begins before the call is sent, so a late answer leaves less of it", async () => {
  const { request, lease, leases, world } = scene()
  for (let i = 0; i < 4; i++) await request()
  const one = lease()
  expect(one.until).toBe(1_000)
  expect(leases.spend(one, 1_000)).toBe(false)
  expect(leases.spend(one, 999)).toBe(true)
  world.now = 5_000
  const answered = leases.ask(one)
  world.now = 6_200
  await answered
  expect(await request()).toBe(false)
})

test("LEASE3: a worker that is not within its lease as a member, or is connected to another Redis, spends nothing", async () => {
  const { request, lease, sweep, settled, leases, timers, world } = scene()
  for (let i = 0; i < 4; i++) await request()
  world.isServing = false
  expect(await request()).toBe(false)
  world.isServing = true
  expect(await request()).toBe(true)
  const told = settled().length
  const held = lease()
  const late = leases.ask(held)
  leases.drop()
  await late
  expect([leases.held, held.unspent > 0 && leases.spend(held, 0)]).toEqual([0, false])
  world.now += 1_000
  sweep()
  // The one that was ended to ask for the next; nothing of the others.
  expect(settled().length - told).toBeLessThanOrEqual(1)
  expect(timers).toEqual([])
})

test("requests that come while a lease is asked for wait for it, as many as it is for", async () => {
  const { request, more, world } = scene()
  await Promise.all(Array.from({ length: 8 }, () => request()))
  expect(more()).toEqual(Array(8).fill(0))
  world.now += 1
  await Promise.all(Array.from({ length: 16 }, () => request()))
  expect(more().slice(8)).toEqual([15])
  const wide = scene()
  wide.world.capacity = 40
  expect(await Promise.all(Array.from({ length: 12 }, () => wide.request()))).toEqual(Array(12).fill(false))
  // One for all whom the lease lets in; the others ask for themselves.
  expect(wide.more()).toEqual([9, 0, 0])
})

test("the number of leases is bounded, and nothing wakes up when there are none", async () => {
  const { lease, timers, sweep, world, request } = scene({ maxLeases: 3 })
  for (const name of ["a", "b", "c"]) await request(name)
  expect(lease("d")).toBeUndefined()
  expect(timers).toHaveLength(1)
  world.now += 2_000
  sweep()
  expect(timers).toEqual([])
  expect(lease("d", "8")).toBeDefined()
})
