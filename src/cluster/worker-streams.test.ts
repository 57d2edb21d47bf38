import { randomUUID } from "node:crypto"
import type { Socket } from "node:net"
import { afterAll, afterEach, beforeAll, describe, expect, inject, test, vi } from "vitest"
import type { LogItem } from "../domain/core/log-entry.ts"
import { DeliveryLogs, type OwnRun } from "./delivery-log.ts"
import { redisKeys } from "./keys.ts"
import { openBlockingRedis, openRedis, type Redis } from "./redis.ts"
import { WorkerStreams } from "./worker-streams.ts"
import { systemClock } from "../std/system-clock.ts"
import { ownRedis } from "../../tests/kit/services.ts"

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
    isRung?: boolean
    /** Each command by which streams are read. */
    onRead?: (words: string) => void
    onTrouble?: () => void
    /** Both ways to Redis; those of every test when left out. */
    connections?: { readonly store: Redis; readonly blocking: Redis }
  } = {},
) {
  const { store, blocking } = options.connections ?? {
    store: redis,
    blocking: openBlockingRedis(inject("redis"), "worker streams test blocking", () => {}),
  }

  const keys = redisKeys(`test-${randomUUID()}:`)
  const logs = new DeliveryLogs(store, store, keys)
  await blocking.connect()
  const { onRead } = options
  if (onRead) {
    const xread = blocking.xread.bind(blocking) as (...words: unknown[]) => Promise<never>
    blocking.xread = (...words: unknown[]) => {
      onRead(words.join(" "))
      return xread(...words)
    }
  }
  await logs.create("w", 1000)
  await store.multi().xadd(keys.inbox("w"), "0-1", "m", "[]").xdel(keys.inbox("w"), "0-1").exec()
  const taken: LogItem[] = []
  const messages: string[][] = []
  let now = 0
  let marks = 0
  const streams = new WorkerStreams({
    blocking,
    redis: store,
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
    isRung: () => options.isRung ?? true,
    newLog: { reserved: () => 0, note: async () => true, moved: () => {} },
    onOver: () => {},
    onMessage: fields => messages.push([...fields]),
    onItems(items) {
      taken.push(...items)
      options.onItems?.(items)
    },
    trouble: () => options.onTrouble?.(),
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

describe("a worker that appends to its own log", () => {
  /** A worker that appends to its own log, and counts what its reader asks for. */
  const startOwn = async (options: { isRung?: boolean; isHeld?: () => boolean } = {}) => {
    const reads: string[] = []
    const runs: OwnRun[] = []
    const started = await start({ isRung: options.isRung ?? true, onRead: what => reads.push(what) })
    const { streams, keys, logs, taken } = started
    if (options.isHeld) streams.holdWhile(options.isHeld)
    let isHandedOn = true
    const take = (run: OwnRun) => {
      runs.push(run)
      if (isHandedOn) streams.takeOwn(run)
    }
    const own = new DeliveryLogs(redis, redis, keys, { worker: "w", take })
    const numbers = { own: 0, other: 0 }
    const part = (shard: number, number: number, events = 1) => ({
      shard,
      epoch: 1,
      number,
      before: number - 1,
      fields: Array.from({ length: events }, (_, i) => [`["e",${shard},${number}]`, `${shard}.${number}.${i}`]).flat(),
    })
    const inTurn = () => taken.map(({ data }) => data)
    return {
      ...started,
      own,
      reads,
      runs,
      inTurn,
      appendOwn: (events = 1) => own.append("w", [part(1, ++numbers.own, events)]),
      appendOther: (events = 1) => logs.append("w", [part(2, ++numbers.other, events)]),
      /** The answers of scripts get lost. */
      losesAnswers: (isLosing: boolean) => (isHandedOn = !isLosing),
      async isWhole() {
        const stands = (await logs.read("w", 1000, 10_000)).map(({ s, data }) => [s, data])
        await vi.waitFor(() => expect(taken.map(({ s, data }) => [s, data])).toEqual(stands), { interval: 2 })
      },
    }
  }

  test("LOG3: what a worker appends itself is there with the answer, and nothing is read for it", async () => {
    const { appendOwn, own, reads, inTurn, streams, isWhole } = await startOwn()
    await vi.waitFor(() => expect(reads).not.toEqual([]), { interval: 2 })
    // A read also ends by itself, at times.
    let fewest = Infinity
    for (let i = 1; i <= 5; i++) {
      const before = reads.length
      await appendOwn()
      expect(inTurn().slice(-1)).toEqual([`1.${2 * i - 1}.0`])
      await appendOwn(3)
      await own.appendEphemeral("w", ['["x",1]', "typing"])
      expect(inTurn().slice(-4)).toEqual([0, 1, 2].map(n => `1.${2 * i}.${n}`).concat("typing"))
      expect(streams.position).toBe(await own.lastPosition("w"))
      fewest = Math.min(fewest, reads.length - before)
    }
    expect(fewest).toBe(0)
    await isWhole()
    expect(streams.recentAfter(1000)).toHaveLength(25)
  })

  test("LOG3: what others append in between comes in its place, and nothing comes twice", async () => {
    const { appendOwn, appendOther, inTurn, isWhole } = await startOwn()
    for (let i = 0; i < 30; i++) {
      await Promise.all([appendOwn(), appendOther(2), appendOwn(2), appendOther()])
      if (i % 3 === 0) await isWhole()
    }
    await isWhole()
    expect(new Set(inTurn()).size).toBe(30 * 6)
  })

  test("what others append wakes the reader", async () => {
    const { appendOther, inTurn } = await startOwn()
    for (let i = 1; i <= 5; i++) {
      await appendOther()
      // Far sooner than a read ends by itself.
      await vi.waitFor(() => expect(inTurn()).toHaveLength(i), { timeout: 1_000, interval: 2 })
    }
  })

  test("LOG3: what was appended without an answer is read once something is known of it", async () => {
    const { appendOwn, own, losesAnswers, inTurn, isWhole } = await startOwn()
    losesAnswers(true)
    await appendOwn(2)
    losesAnswers(false)
    expect(inTurn()).toEqual([])
    // As the outbox does: it stands there.
    const again = { shard: 1, epoch: 1, number: 1, before: 0, fields: ['["e",1,1]', "again"] }
    expect(await own.append("w", [again])).toEqual([{ is: "dup" }])
    await vi.waitFor(() => expect(inTurn()).toEqual(["1.1.0", "1.1.1"]), { timeout: 1_000, interval: 2 })
    losesAnswers(true)
    await appendOwn()
    losesAnswers(false)
    await appendOwn()
    await vi.waitFor(() => expect(inTurn().slice(2)).toEqual(["1.2.0", "1.3.0"]), { timeout: 1_000, interval: 2 })
    await isWhole()
  })

  test("a join marker is read, and goes before what follows it", async () => {
    const { appendOwn, own, taken } = await startOwn()
    await appendOwn()
    await own.mark("w", { floor: 0, from: "a", since: 5, length: 1000 })
    await appendOwn()
    const kinds = () => taken.map(({ header }) => header[0])
    await vi.waitFor(() => expect(kinds()).toEqual(["e", "m", "e"]), { timeout: 1_000, interval: 2 })
  })

  test("LOG2: nothing is taken while what was taken before waits to be sent", async () => {
    let isHeld = false
    const { appendOwn, keys, reads, inTurn, isWhole } = await startOwn({ isHeld: () => isHeld })
    await appendOwn()
    isHeld = true
    // The read that had begun ends.
    await redis.xadd(keys.inbox("w"), "*", "m", "[]")
    await vi.waitFor(() => expect(reads.at(-1)).toMatch(/BLOCK 20 /), { interval: 2 })
    await appendOwn()
    await appendOwn()
    expect(inTurn()).toEqual(["1.1.0"])
    isHeld = false
    await isWhole()
    expect(inTurn()).toEqual(["1.1.0", "1.2.0", "1.3.0"])
  })

  test("beside workers of a version that wakes nobody the log itself is waited for", async () => {
    const { appendOwn, keys, inTurn, reads } = await startOwn({ isRung: false })
    await appendOwn()
    expect(reads.at(-1)).toMatch(/BLOCK 2000 .*inbox.*log:/)
    const last = Number(await redis.hget(keys.logPosition("w"), "s"))
    // As such a version's script does.
    await redis.xadd(keys.log("w"), `${last + 1}-0`, '["e",3,1]', "older")
    await redis.hset(keys.logPosition("w"), "s", last + 1)
    await vi.waitFor(() => expect(inTurn()).toEqual(["1.1.0", "older"]), { timeout: 1_000, interval: 2 })
    await appendOwn()
    await vi.waitFor(() => expect(inTurn()).toEqual(["1.1.0", "older", "1.2.0"]), { timeout: 1_000, interval: 2 })
  })

  test("what was appended in another Redis is not taken", async () => {
    const { appendOwn, runs, streams, inTurn } = await startOwn()
    await appendOwn()
    const { to } = runs[0]!
    streams.takeOwn({ at: "another", from: to, to: to + 1, fields: ['["e",1,2]', "lost"] })
    expect([inTurn(), streams.position]).toEqual([["1.1.0"], to])
  })
})

test("the connection to a Redis that stands still is given up once, and reading goes on when it is back", async () => {
  const own = await ownRedis()
  undo.push(() => own.close())
  const store = openRedis(own.url, "worker streams test", () => {})
  const blocking = openRedis(own.url, "worker streams test blocking", () => {}, { commandTimeout: 100 })
  await store.connect()
  undo.push(async () => store.disconnect())
  let troubles = 0
  let listeners = 0
  const { taken, append } = await start({
    connections: { store, blocking },
    onTrouble() {
      troubles++
      listeners = Math.max(listeners, stalled.listenerCount("close"))
    },
  })
  await append(1)
  const stalled = (blocking as unknown as { stream: Socket }).stream
  const before = stalled.listenerCount("close")
  await own.pause()
  await vi.waitFor(() => expect(troubles).toBeGreaterThan(10), { timeout: 20_000 })
  expect(listeners).toBeLessThanOrEqual(before + 1)
  await own.resume()
  await append(1)
  expect(taken).toHaveLength(2)
})
