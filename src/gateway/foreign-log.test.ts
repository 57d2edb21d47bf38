import { randomUUID } from "node:crypto"
import { afterAll, beforeAll, expect, inject, test } from "vitest"
import { DeliveryLogs } from "../cluster/delivery-log.ts"
import { redisKeys } from "../cluster/keys.ts"
import { openRedis } from "../cluster/redis.ts"
import type { LogItem } from "../domain/log-entry.ts"
import { firstAfter, ForeignLogs, OutOfReach } from "./foreign-log.ts"
import type { Leg } from "./journey.ts"

const redis = openRedis(inject("redis"), "foreign log test", () => {})
beforeAll(() => redis.connect())
afterAll(() => redis.quit())

const item = (s: number): LogItem => ({ s, header: ["b"], data: "", bytes: 1 })

test("the first piece after a position is found by halving", () => {
  const items = [3, 5, 9].map(item)
  expect([0, 2, 3, 4, 5, 8, 9, 100].map(position => firstAfter(items, position))).toEqual([0, 0, 1, 1, 2, 2, 3, 3])
  expect(firstAfter([], 7)).toBe(0)
})

async function open(maxBytes = 1_000_000) {
  const keys = redisKeys(`test-${randomUUID()}:`)
  const logs = new DeliveryLogs(redis, keys)
  let now = 0
  const clock = { now: () => now, monotonic: () => now, sleep: async () => {} }
  await logs.create("a", 5000)
  await logs.create("b", 1000)
  const foreign = new ForeignLogs({ logs, self: "b", maxBytes, keep: 60_000, clock })
  let number = 0
  const append = async (count: number, data = "x") => {
    const fields = Array.from({ length: count }, () => [`["e",1,${number + 1},"home"]`, data]).flat()
    await logs.append("a", [{ shard: 1, epoch: 1, number: number + 1, before: number, fields }])
    number++
  }
  return { keys, logs, foreign, append, passes: (ms: number) => (now += ms) }
}

/** A leg of a journey that begins after a position of that log. */
const leg = (start: number, log = "a"): Leg => ({ log, start, after: undefined, until: new Map([["home", 99]]) })

test("a log is read to its present end, from any position it still reaches", async () => {
  const { logs, foreign, append } = await open()
  const after = async (start: number, log?: string) =>
    (await foreign.read(leg(start, log), 0, null)).items.map(one => one.s)
  await append(700)
  await append(900)
  const all = (await logs.read("a", 0, 10_000)).map(one => one.s)
  expect(await after(all[800]!)).toEqual(all.slice(801))
  expect(await after(5000)).toEqual(all.slice(1))
  await append(3)
  expect(await after(all.at(-1)!)).toHaveLength(3)
  await expect(after(4998)).rejects.toThrow(OutOfReach)
  await expect(after(5000, "nobody")).rejects.toThrow(OutOfReach)
})

test("many who come at once share one reading", async () => {
  const { logs, foreign, append } = await open()
  await append(1200)
  let reads = 0
  const read = logs.read.bind(logs)
  logs.read = (...args) => {
    reads++
    return read(...args)
  }
  const found = await Promise.all(Array.from({ length: 20 }, () => foreign.read(leg(5000), 0, null)))
  expect(new Set(found.map(({ items }) => items.length))).toEqual(new Set([1200]))
  expect(reads).toBeLessThanOrEqual(3)
})

test("what is too much to hold, has a gap, or goes beyond the reserved positions is out of reach", async () => {
  const { logs, foreign, append } = await open(1000)
  await append(2)
  const last = (await logs.lastPosition("a"))!
  expect((await foreign.read(leg(5000), 7, last + 7)).items).toHaveLength(2)
  await expect(foreign.read(leg(5000), 7, last + 6)).rejects.toThrow(OutOfReach)
  await append(20, "x".repeat(100))
  await expect(foreign.read(leg(5000), 0, null)).rejects.toThrow(OutOfReach)

  const { logs: others, foreign: reader } = await open()
  await others.append("a", [{ shard: 1, epoch: 1, number: 9, before: null, fields: ['["g",1,9]', ""] }])
  await expect(reader.read(leg(5000), 0, null)).rejects.toThrow(OutOfReach)
})

test("a join reserves room for what lies after the start, above all that either log gave out, and serves all who come", async () => {
  const { logs, foreign, append } = await open()
  await append(10)
  const last = (await logs.lastPosition("a"))!
  const ask = { start: 5000, isLiving: false, above: last }
  const join = await foreign.join("a", ask)
  expect(join.first).toBeLessThanOrEqual(5001)
  expect(join.mappedFirst).toBeGreaterThan(last)
  expect(join.mappedLast - join.mappedFirst).toBeGreaterThanOrEqual(last - join.first)
  expect(await logs.lastPosition("b")).toBe(join.mappedLast)
  expect(await foreign.join("a", ask)).toBe(join)
  // Somebody who has seen more than the join begins with needs another.
  const above = await foreign.join("a", { ...ask, above: join.mappedFirst })
  expect(above.mappedFirst).toBeGreaterThan(join.mappedLast)
})

test("the join of a log that still grows is made anew after a while, and for whoever stopped before it begins", async () => {
  const { logs, foreign, append, passes } = await open()
  await append(5)
  const last = (await logs.lastPosition("a"))!
  const ask = { start: last - 1, isLiving: true, above: 0 }
  const join = await foreign.join("a", ask)
  expect(await foreign.join("a", ask)).toBe(join)
  const earlier = await foreign.join("a", { ...ask, start: last - 4 })
  expect(earlier.first).toBeLessThanOrEqual(last - 3)
  passes(5_001)
  expect(await foreign.join("a", ask)).not.toBe(earlier)
})

test("logs that nobody came for lately go out of memory; they can be read again", async () => {
  const { logs, foreign, append, passes } = await open()
  await append(5)
  await foreign.read(leg(5000), 0, null)
  passes(60_001)
  foreign.sweep()
  expect((await foreign.read(leg(5000), 0, null)).items).toHaveLength(5)
  await logs.drop("a")
  await expect(foreign.read(leg(5000), 0, null)).rejects.toThrow(OutOfReach)
})
