import { randomUUID } from "node:crypto"
import { afterAll, beforeAll, expect, inject, test } from "vitest"
import { systemClock } from "../std/system-clock.ts"
import { GatewaySessions } from "./gateway-sessions.ts"
import { redisKeys } from "./keys.ts"
import { openRedis } from "./redis.ts"

const redis = openRedis(inject("redis"), "gateway sessions test", () => {})
beforeAll(() => redis.connect())
afterAll(() => redis.quit())

test("a user's connections are counted by session; a worker counts out only its own", async () => {
  const records = new GatewaySessions(redis, redisKeys(`test-${randomUUID()}:`), {
    isShortRead: () => true,
    clock: systemClock,
  })
  expect(await records.connect("u", "a", "east")).toEqual(["east"])
  expect((await records.connect("u", "b", "west")).toSorted()).toEqual(["east", "west"])
  // The session goes on elsewhere; that its old socket has ended is heard later.
  await records.connect("u", "a", "west")
  expect(await records.disconnect("u", "a", "east")).toEqual(["west", "west"])
  expect(await records.disconnect("u", "a", "west")).toEqual(["west"])
  expect(await records.disconnect("u", "unknown", "west")).toEqual(["west"])
  expect(await records.disconnect("u", "b", "west")).toEqual([])
})

test("P17: a record is short only while everybody reads that, is read in either form, and is reported once to be written again", async () => {
  let isShortRead = false
  const keys = redisKeys(`test-${randomUUID()}:`)
  const records = new GatewaySessions(redis, keys, { isShortRead: () => isShortRead, clock: systemClock })
  const record = {
    id: "s",
    worker: "east",
    user: "7",
    accessSession: "8",
    intents: 9,
    guilds: ["10", "11"],
    changes: [{ server: "12", s: 3, isMember: true }],
    spans: [{ log: "east", lo: 1, hi: null, counted: false, since: 1 }],
    voice: null,
  }
  const written = async () => {
    expect(await records.save(record)).toBe(true)
    expect(await records.load("s")).toEqual(record)
    return (await redis.hget(await onlyKey(keys.gatewaySession("*", "*")), "record"))!
  }
  // As the version before reads it.
  expect({ ...(JSON.parse(await written()) as object), worker: "east" }).toEqual(record)
  expect(records.takeUnreadable()).toBe(false)
  isShortRead = true
  expect(await written()).toMatch(/^2;/)
  expect(records.takeUnreadable()).toBe(false)
  isShortRead = false
  expect([records.takeUnreadable(), records.takeUnreadable()]).toEqual([true, false])
  expect(await written()).toMatch(/^{/)
})

/** Where it is counted how many sessions each script begins. */
function counted() {
  const sizes: number[] = []
  const counting = new Proxy(redis, {
    get: (target, name) =>
      name === "begin-sessions"
        ? (keys: string, ...rest: string[]) => {
            sizes.push(Number(keys) / 2)
            return (target as unknown as Record<string, (...given: string[]) => unknown>)[name]!(keys, ...rest)
          }
        : Reflect.get(target, name, target),
  })
  const keys = redisKeys(`test-${randomUUID()}:`)
  return { sizes, records: new GatewaySessions(counting, keys, { isShortRead: () => true, clock: systemClock }) }
}
const begun = (id: string, user: string, servers = 1) => ({
  id,
  worker: "east",
  user,
  accessSession: "8",
  intents: 9,
  guilds: Array.from({ length: servers }, (_, i) => String(i + 1)),
  changes: [],
  spans: [],
  voice: null,
})

test("sessions that begin in one turn cost one script; of six of one user each is told of those before it", async () => {
  const { sizes, records } = counted()
  const six = Array.from({ length: 6 }, (_, i) => begun(`s${i}`, "7"))
  const told = await Promise.all([...six.map(one => records.begin(one)), records.begin(begun("other", "9"))])
  expect(told.map(workers => workers?.length)).toEqual([1, 2, 3, 4, 5, 6, 1])
  expect(sizes).toEqual([7])
  expect(await records.load("s3")).toEqual(six[3])
  expect(await records.disconnect("7", "s5", "east")).toHaveLength(5)
})

test("P19: one script begins no more than 64 sessions, and no more bytes of records than a bound", async () => {
  const { sizes, records } = counted()
  const many = Array.from({ length: 150 }, (_, i) => begun(`s${i}`, String(i + 1)))
  await Promise.all(many.map(one => records.begin(one)))
  expect(sizes).toEqual([64, 64, 22])
  sizes.length = 0
  // Each of some 7 characters a server.
  const large = Array.from({ length: 20 }, (_, i) => begun(`l${i}`, String(i + 1), 2_000))
  await Promise.all(large.map(one => records.begin(one)))
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(20)
  expect(Math.max(...sizes)).toBeLessThanOrEqual(9)
})

test("a Redis that fails fails all that go together, and none of the next", async () => {
  const { sizes, records } = counted()
  await redis.set("test-wrong", "a text")
  const keys = redisKeys(`test-${randomUUID()}:`)
  const failing = new GatewaySessions(
    redis,
    { ...keys, gatewayConnections: user => (user === "7" ? "test-wrong" : keys.gatewayConnections(user)) },
    { isShortRead: () => true, clock: systemClock },
  )
  const outcomes = await Promise.allSettled(["7", "8"].map(user => failing.begin(begun(user, user))))
  expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"])
  expect(await failing.begin(begun("9", "9"))).toEqual(["east"])
  expect([await records.begin(begun("7", "7")), sizes]).toEqual([["east"], [1]])
  await redis.del("test-wrong")
})

test("a session is claimed from its holder alone, once, and another worker's does not begin", async () => {
  const { records } = counted()
  await Promise.all(["a", "b", "c"].map(id => records.begin(begun(id, "7"))))
  const claims = [
    records.claim("a", "east", "west"),
    records.claim("a", "east", "north"),
    records.claim("b", "south", "west"),
    records.claim("none", "east", "west"),
    records.forget("c", "east"),
  ]
  expect(await Promise.all(claims)).toEqual([true, false, false, false, undefined])
  const loaded = await Promise.all(["a", "b", "c", "none"].map(id => records.load(id)))
  expect(loaded).toEqual([{ ...begun("a", "7"), worker: "west" }, begun("b", "7"), undefined, undefined])
  // Its record is west's by now: nothing is counted and nothing written.
  expect(await records.begin(begun("a", "9", 2))).toBeUndefined()
  expect(await records.connect("9", "z", "east")).toEqual(["east"])
  expect(await records.load("a")).toMatchObject({ worker: "west", guilds: ["1"] })
})

async function onlyKey(pattern: string): Promise<string> {
  const found = await redis.keys(pattern)
  expect(found).toHaveLength(1)
  return found[0]!
}
