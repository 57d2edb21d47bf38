import { randomUUID } from "node:crypto"
import { afterAll, afterEach, beforeAll, expect, inject, test, vi } from "vitest"
import type { LogItem } from "../domain/core/log-entry.ts"
import { DeliveryLogs } from "./delivery-log.ts"
import { redisKeys } from "./keys.ts"
import { openBlockingRedis, openRedis } from "./redis.ts"
import { WorkerStreams } from "./worker-streams.ts"
import { systemClock } from "../std/system-clock.ts"

const redis = openRedis(inject("redis"), "worker streams test", () => {})
beforeAll(() => redis.connect())
afterAll(() => redis.quit())

const undo: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

async function start(
  options: {
    memoryBytes?: number
    keep?: number
    maxBytes?: number
    onItems?: (items: readonly LogItem[]) => void
  } = {},
) {
  const keys = redisKeys(`test-${randomUUID()}:`)
  const logs = new DeliveryLogs(redis, redis, keys)
  const blocking = openBlockingRedis(inject("redis"), "worker streams test blocking", () => {})
  await blocking.connect()
  await logs.create("w", 1000)
  const taken: LogItem[] = []
  const messages: string[][] = []
  let now = 0
  let marks = 0
  const streams = new WorkerStreams({
    blocking,
    redis,
    keys,
    worker: "w",
    bounds: {
      readCount: 500,
      keepMs: options.keep ?? 60_000,
      maxBytes: options.maxBytes ?? 2 ** 30,
      memoryBytes: options.memoryBytes ?? 2 ** 30,
      markEveryMs: 5,
    },
    clock: { ...systemClock, monotonic: () => (marks++, now) }, // asked once a mark
    reserved: () => 0,
    newLog: { note: async () => true, moved: () => {} },
    onOver: () => {},
    onMessage: fields => messages.push([...fields]),
    onItems(items) {
      taken.push(...items)
      options.onItems?.(items)
    },
    trouble: () => {},
  })
  streams.start("0-0", 1000)
  undo.push(() => streams.stop())
  let number = 0
  /** Appends events of about `size` bytes and waits until they are read. */
  async function append(count: number, size = 10): Promise<void> {
    const fields = Array.from({ length: count }, () => ['["e",1]', "x".repeat(size)]).flat()
    await logs.append("w", [{ shard: 1, epoch: 1, number: number + 1, before: number, fields }])
    number++
    const goal = await logs.lastPosition("w")
    await vi.waitFor(() => expect(streams.position).toBe(goal), { timeout: 5_000, interval: 2 })
  }
  async function marked(): Promise<void> {
    const before = marks
    await vi.waitFor(() => expect(marks).toBeGreaterThan(before + 1), { interval: 2 })
  }
  return { streams, logs, keys, taken, messages, append, marked, passes: (ms: number) => (now += ms) }
}

const positions = (items: readonly LogItem[] | undefined) => items?.map(item => item.s)

test("what lies after a position is exactly what was read after it", async () => {
  const { streams, taken, append } = await start()
  expect(streams.recentAfter(1000)).toEqual([])
  await append(5)
  await append(3)
  expect(taken).toHaveLength(8)
  const all = positions(taken)!
  expect(positions(streams.recentAfter(1000))).toEqual(all)
  for (const [i, s] of all.entries()) {
    expect(positions(streams.recentAfter(s))).toEqual(all.slice(i + 1))
    // A position that nothing stands at means the same as the one below it.
    expect(positions(streams.recentAfter(s - 0.5))).toEqual(all.slice(i))
  }
  expect(streams.recentAfter(all.at(-1)! + 1_000_000)).toEqual([])
})

test("before what memory holds it says so, and never leaves out a piece", async () => {
  const { streams, logs, taken, append } = await start({ memoryBytes: 400 })
  for (let i = 0; i < 10; i++) await append(3, 40)
  expect(streams.memoryBytes).toBeLessThanOrEqual(400)
  const all = positions(taken)!
  expect(streams.recentAfter(1000)).toBeUndefined()
  let known = 0
  for (const s of [1000, ...all]) {
    const recent = streams.recentAfter(s)
    if (recent === undefined) {
      expect(known).toBe(0) // older positions only
      continue
    }
    known++
    expect(positions(recent)).toEqual(all.filter(other => other > s))
  }
  expect(known).toBeGreaterThan(1)
  // The oldest position from which memory is whole is that of the last piece that went.
  const from = all.find(s => streams.recentAfter(s) !== undefined)!
  expect(positions(await logs.read("w", from, 100))).toEqual(positions(streams.recentAfter(from)))
})

test("one piece larger than memory may hold is handed on all the same", async () => {
  const { streams, taken, append } = await start({ memoryBytes: 100 })
  await append(1, 5_000)
  expect(taken).toHaveLength(1)
  expect(streams.recentAfter(1000)).toBeUndefined()
  expect(streams.recentAfter(taken[0]!.s)).toEqual([])
})

test("an event that pushes an older one out of memory moves no other", async () => {
  const { streams, append, taken } = await start({ memoryBytes: 10_000 })
  await append(1_000, 80)
  const remembered = streams.recentAfter(taken.at(-101)!.s)!
  expect(remembered).toHaveLength(100) // memory is full
  let moved = 0
  const { splice } = Array.prototype
  const spy = vi.spyOn(Array.prototype, "splice").mockImplementation(function (this: unknown[], ...args) {
    const removed = splice.apply(this, args)
    if (args[0] === 0 && taken.includes(removed[0] as LogItem)) moved += this.length
    return removed
  })
  try {
    for (let i = 0; i < 100; i++) await append(1, 80)
  } finally {
    spy.mockRestore()
  }
  expect(moved).toBeLessThanOrEqual(200)
})

test("what is older than `keep` by the monotonic clock is trimmed, and `oldest` says from where the log is whole", async () => {
  const { streams, append, taken, marked, passes } = await start({ keep: 1000 })
  await append(2)
  const middle = taken.at(-1)!.s
  await marked()
  passes(600)
  await append(2)
  expect(streams.oldest).toBe(1000)
  passes(600)
  await vi.waitFor(() => expect(streams.oldest).toBe(middle), { interval: 2 })
  passes(2000)
  await vi.waitFor(() => expect(streams.oldest).toBe(taken.at(-1)!.s), { interval: 2 })
  expect(streams.recentAfter(streams.oldest)).toEqual([])
})

test("an inbox in which nothing has come since is not trimmed again", async () => {
  const { keys, messages, marked } = await start()
  const trims = vi.spyOn(redis, "xtrim")
  try {
    const arrive = async (name: string) => {
      await redis.xadd(keys.inbox("w"), "*", "m", name)
      await vi.waitFor(() => expect(messages.at(-1)).toEqual(["m", name]), { interval: 2 })
      for (let i = 0; i < 5; i++) await marked()
    }
    await arrive("one")
    expect(trims).toHaveBeenCalledTimes(1)
    await arrive("two")
    expect(trims).toHaveBeenCalledTimes(2)
  } finally {
    trims.mockRestore()
  }
})

test("more bytes than the cap are trimmed whatever their age", async () => {
  const { streams, append, taken, marked } = await start({ maxBytes: 500 })
  for (let i = 0; i < 6; i++) {
    await append(2, 100)
    await marked()
  }
  await vi.waitFor(() => expect(streams.oldest).toBeGreaterThan(1000), { interval: 2 })
  const held = taken.filter(item => item.s > streams.oldest).reduce((sum, item) => sum + item.bytes, 0)
  expect(held).toBeLessThanOrEqual(500 + 2 * 107)
})

test("inbox and log are read side by side, and reading goes on after the connection was lost", async () => {
  const { streams, keys, messages, taken, append } = await start()
  await redis.xadd(keys.inbox("w"), "*", "m", "one")
  await append(1)
  await vi.waitFor(() => expect(messages).toEqual([["m", "one"]]), { interval: 2 })
  const id = await redis.client("LIST")
  const mine = String(id)
    .split("\n")
    .find(line => line.includes("name=worker-streams-test-blocking"))
  await redis.client("KILL", "ID", /id=(\d+)/.exec(mine!)![1]!)
  await redis.xadd(keys.inbox("w"), "*", "m", "two")
  await append(2)
  await vi.waitFor(
    () =>
      expect(messages).toEqual([
        ["m", "one"],
        ["m", "two"],
      ]),
    { interval: 2 },
  )
  expect(taken).toHaveLength(3)
  expect(streams.position).toBe(taken.at(-1)!.s)
})

test("LOG2: fat entries that have gathered are read by the megabyte, small ones by the hundred, and messages beside them", async () => {
  let reads: LogItem[][] = []
  const { streams, keys, logs, messages } = await start({ onItems: items => reads.push([...items]) })
  let number = 0
  /** Puts entries of one event into the log while the reader is cut off, and waits until all are read. */
  const gather = async (count: number, size: number) => {
    reads = []
    const data = "x".repeat(size)
    let letOn = false
    streams.holdWhile(() => !letOn)
    const part = () => ({ shard: 1, epoch: 1, number: ++number, before: number - 1, fields: ['["e",1]', data] })
    await Promise.all(Array.from({ length: count }, () => logs.append("w", [part()])))
    const before = messages.length
    for (let i = 0; i < 40; i++) await redis.xadd(keys.inbox("w"), "*", "m", String(i))
    // What others ask is read while the log is held.
    await vi.waitFor(() => expect(messages.length - before).toBe(40), { timeout: 5_000, interval: 2 })
    const goal = await logs.lastPosition("w")
    letOn = true
    await vi.waitFor(() => expect(streams.position).toBe(goal), { timeout: 10_000, interval: 2 })
    return Math.max(...reads.map(items => items.reduce((sum, { bytes }) => sum + bytes, 0)))
  }
  const size = 200_000
  const largest = await gather(160, size)
  expect(reads.flat().length).toBe(160)
  // One is a blocking read of 16 entries. The others end with the entries that reach a megabyte.
  expect(largest).toBeLessThanOrEqual(17 * size)
  expect(reads.filter(({ length }) => length > 10).length).toBeLessThanOrEqual(1)

  await gather(1_500, 10)
  expect(reads.flat().length).toBe(1_500)
  expect(reads.length).toBeLessThanOrEqual(6)
})
