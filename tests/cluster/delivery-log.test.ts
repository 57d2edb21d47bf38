/** The delivery log's scripts on a real Redis: what an append is answered, which positions it gives out, what a reader finds. */
import { randomUUID } from "node:crypto"
import fc from "fast-check"
import { afterAll, beforeAll, expect, inject, test } from "vitest"
import { DeliveryLogs, type LogPart } from "../../src/cluster/delivery-log.ts"
import { redisKeys } from "../../src/cluster/keys.ts"
import { openRedis } from "../../src/cluster/redis.ts"
import { epochMs } from "../../src/domain/core/snowflake.ts"

const redis = openRedis(inject("redis"), "delivery log test", () => {})
beforeAll(() => redis.connect())
afterAll(() => redis.quit())

/** `s` of this moment. */
const sNow = () => (Date.now() - epochMs) * 4096

async function newLog(first = 1000) {
  const keys = redisKeys(`test-${randomUUID()}:`)
  const logs = new DeliveryLogs(redis, redis, keys)
  await logs.create("w", first)
  const all = async () => (await logs.read("w", 0, 10_000)).slice(1)
  return { logs, keys, all }
}

const part = (
  shard: number,
  number: number,
  before: number | null,
  options: { epoch?: number; events?: number } = {},
): LogPart => ({
  shard,
  epoch: options.epoch ?? 1,
  number,
  before,
  fields: Array.from({ length: options.events ?? 1 }, (_, i) => [
    JSON.stringify(["e", shard, number]),
    `"${shard}.${number}.${i}"`,
  ]).flat(),
})
const is = (answers: readonly { is: string }[]) => answers.map(answer => answer.is)

test("an append is ok once and dup ever after; the log holds it once", async () => {
  const { logs, all } = await newLog()
  expect(is(await logs.append("w", [part(1, 1, 0)]))).toEqual(["ok"])
  expect(is(await logs.append("w", [part(1, 1, 0)]))).toEqual(["dup"])
  expect(is(await logs.append("w", [part(1, 2, 1), part(1, 1, 0)]))).toEqual(["ok", "dup"])
  expect((await all()).map(item => item.data)).toEqual(['"1.1.0"', '"1.2.0"'])
})

test("a broken chain is answered with where the log stands, and nothing of it is appended", async () => {
  const { logs, all } = await newLog()
  await logs.append("w", [part(1, 4, 0)])
  expect(await logs.append("w", [part(1, 9, 7)])).toEqual([{ is: "link", position: 4 }])
  expect(await logs.append("w", [part(2, 3, 1)])).toEqual([{ is: "link", position: 0 }])
  expect(is(await logs.append("w", [part(1, 9, 4)]))).toEqual(["ok"])
  // A declared gap asks for nothing that came before.
  expect(is(await logs.append("w", [part(2, 3, null)]))).toEqual(["ok"])
  expect((await all()).map(item => item.data)).toEqual(['"1.4.0"', '"1.9.0"', '"2.3.0"'])
})

test("an owner that appends under a lower epoch than another before is stale, also with a number that is new", async () => {
  const { logs, all } = await newLog()
  await logs.append("w", [part(1, 1, 0, { epoch: 3 })])
  expect(is(await logs.append("w", [part(1, 2, 1, { epoch: 2 })]))).toEqual(["stale"])
  expect(is(await logs.append("w", [part(1, 1, 0, { epoch: 2 })]))).toEqual(["stale"])
  expect(is(await logs.append("w", [part(1, 2, 1, { epoch: 3 })]))).toEqual(["ok"])
  expect(is(await logs.append("w", [part(1, 3, 2, { epoch: 4 })]))).toEqual(["ok"])
  expect(await all()).toHaveLength(3)
})

test("an append never makes a log", async () => {
  const { logs } = await newLog()
  expect(is(await logs.append("nobody", [part(1, 1, 0), part(2, 1, 0)]))).toEqual(["nolog", "nolog"])
  expect(await logs.appendEphemeral("nobody", ["[]", ""])).toBe(false)
  expect(await logs.mark("nobody", { floor: 0, from: "w", since: 1, length: 5 })).toBeUndefined()
  expect(await logs.exists("nobody")).toBe(false)
  await logs.drop("w")
  expect(is(await logs.append("w", [part(1, 1, 0)]))).toEqual(["nolog"])
  expect(await logs.exists("w")).toBe(false)
  expect(await logs.positions("w")).toBeUndefined()
})

test("shards of one call are answered each for itself", async () => {
  const { logs } = await newLog()
  await logs.append("w", [part(1, 1, 0, { epoch: 5 }), part(2, 4, 0)])
  const answers = await logs.append("w", [
    part(1, 2, 1),
    part(2, 4, 0),
    part(2, 9, 8),
    part(3, 1, 0, { events: 2 }),
    part(4, 2, 1),
    part(3, 2, 1),
  ])
  expect(is(answers)).toEqual(["stale", "dup", "link", "ok", "link", "ok"])
  expect(await logs.positions("w")).toEqual(
    new Map([
      [1, 1],
      [2, 4],
      [3, 2],
    ]),
  )
})

test("positions rise strictly, one for each event, and follow the clock when they can", async () => {
  const { logs, all } = await newLog()
  const before = sNow()
  await logs.append("w", [part(1, 1, 0, { events: 3 }), part(2, 1, 0, { events: 2 })])
  await logs.appendEphemeral("w", [JSON.stringify(["x", 1]), "1", JSON.stringify(["x", 1]), "2"])
  await logs.append("w", [part(1, 2, 1)])
  const items = await all()
  expect(items).toHaveLength(8)
  for (const [i, item] of items.entries()) {
    if (i > 0) expect(item.s).toBeGreaterThan(items[i - 1]!.s)
    expect(Number.isSafeInteger(item.s)).toBe(true)
    expect(item.s).toBeGreaterThanOrEqual(before - 4096)
  }
  // The events of one entry lie side by side.
  expect(items.slice(1, 5).map((item, i) => item.s - items[i]!.s)).toEqual([1, 1, 1, 1])
  expect(await logs.lastPosition("w")).toBe(items.at(-1)!.s)
})

test("a clock that jumped ahead and came back gives out no position twice", async () => {
  const ahead = sNow() + 3_600_000 * 4096
  const { logs, all } = await newLog(ahead)
  for (let number = 1; number <= 5; number++) await logs.append("w", [part(1, number, number - 1, { events: 2 })])
  expect((await all()).map(item => item.s)).toEqual(Array.from({ length: 10 }, (_, i) => ahead + 1 + i))
})

test("positions stay exact above a trillion: no digit is lost in the script", async () => {
  const far = 2 ** 53 - 1_000_000
  const { logs, all } = await newLog(far)
  await logs.append("w", [part(1, 1, 0, { events: 3 })])
  expect((await all()).map(item => item.s)).toEqual([far + 1, far + 2, far + 3])
  expect(await logs.lastPosition("w")).toBe(far + 3)
})

test("a flush larger than one entry keeps its order and its positions", async () => {
  const { logs, all } = await newLog()
  await logs.append("w", [part(1, 1, 0, { events: 4500 }), part(2, 1, 0, { events: 100 })])
  const items = await all()
  expect(items.map(item => item.data)).toEqual([
    ...Array.from({ length: 4500 }, (_, i) => `"1.1.${i}"`),
    ...Array.from({ length: 100 }, (_, i) => `"2.1.${i}"`),
  ])
  expect(items.every((item, i) => i === 0 || item.s > items[i - 1]!.s)).toBe(true)
})

test("an entry of several events holds 256 KiB at most, counted in UTF-8", async () => {
  const { logs, keys } = await newLog()
  const bound = 256 * 1024
  const sizes = [10, 40_000, 100_000, 100_000, 100_000, 400_000, 5, 5, ...Array.from({ length: 30 }, () => 30_000)]
  const fields = sizes.flatMap(size => ['["e",1,1]', "漢".repeat(size / 3)])
  await logs.append("w", [{ shard: 1, epoch: 1, number: 1, before: 0, fields }])
  const entries = (await redis.xrange(keys.log("w"), "-", "+")).slice(1).map(([id, found]) => ({
    last: Number(id.split("-")[0]),
    events: found.length / 2,
    bytes: Buffer.byteLength(found.join("")),
    first: Buffer.byteLength(found.slice(0, 2).join("")),
    fields: found,
  }))
  expect(entries.flatMap(entry => entry.fields)).toEqual(fields)
  for (const [i, { last, events, bytes }] of entries.entries()) {
    expect(events === 1 || bytes <= bound).toBe(true)
    // As much as fits, so that small events share entries.
    const next = entries[i + 1]
    if (next) expect(bytes + next.first).toBeGreaterThan(bound)
    if (next) expect(next.last - next.events).toBeGreaterThanOrEqual(last)
  }
  expect((await logs.lastPosition("w"))!).toBe(entries.at(-1)!.last)
})

test("a join marker reserves a range above everything given out and above the floor", async () => {
  const { logs } = await newLog()
  await logs.append("w", [part(1, 1, 0)])
  const last = (await logs.lastPosition("w"))!
  const floor = last + 10_000_000_000
  const first = (await logs.mark("w", { floor, from: "other", since: 5, length: 1000 }))!
  expect(first).toBe(floor + 1)
  const second = (await logs.mark("w", { floor: 0, from: "other", since: 5, length: 10 }))!
  expect(second).toBe(first + 1000)
  await logs.append("w", [part(1, 2, 1)])
  expect(await logs.lastPosition("w")).toBe(second + 10)
})

test("reading after a position in the middle of an entry gives the rest of that entry", async () => {
  const { logs, all } = await newLog()
  await logs.append("w", [part(1, 1, 0, { events: 5 })])
  await logs.append("w", [part(1, 2, 1, { events: 2 })])
  const items = await all()
  for (const [i, { s }] of items.entries())
    expect((await logs.read("w", s, 100)).map(item => item.data)).toEqual(items.slice(i + 1).map(item => item.data))
  expect(await logs.firstPosition("w")).toBe(1001)
})

test("many owners at once: every shard's chain is whole, and positions rise for all together", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 60 }), async choices => {
      const { logs, all } = await newLog()
      const numbers = [0, 0, 0, 0]
      // Each owner's appends in their order; those of different owners on their way together.
      const chains = [0, 1, 2, 3].map(() => Promise.resolve())
      for (const shard of choices) {
        const before = numbers[shard]!
        const number = (numbers[shard] = before + 1)
        chains[shard] = chains[shard]!.then(async () => {
          expect(is(await logs.append("w", [part(shard, number, before)]))).toEqual(["ok"])
        })
      }
      await Promise.all(chains)
      const items = await all()
      expect(items).toHaveLength(choices.length)
      expect(items.every((item, i) => i === 0 || item.s > items[i - 1]!.s)).toBe(true)
      for (const shard of [0, 1, 2, 3])
        expect(items.filter(item => item.header[1] === shard).map(item => item.header[2])).toEqual(
          Array.from({ length: numbers[shard]! }, (_, i) => i + 1),
        )
    }),
    { numRuns: 20 },
  )
})
