import { randomUUID } from "node:crypto"
import { afterAll, beforeAll, expect, inject, test } from "vitest"
import { DeliveryLogs } from "../../cluster/delivery-log.ts"
import { redisKeys } from "../../cluster/keys.ts"
import { openRedis } from "../../cluster/redis.ts"
import type { LogItem } from "../../domain/core/log-entry.ts"
import { createMetrics } from "../../observability/metrics.ts"
import { firstAfter } from "./held-log.ts"
import { belongsTo, PeerLogs, nextPiece, LogTruncated, passPiece } from "./peer-log.ts"
import type { PeerLogSlice } from "../state/log-spans.ts"
import { type ReplaySegment, segmentsFrom, type Span } from "../state/log-spans.ts"
import { systemClock } from "../../std/system-clock.ts"

const metrics = createMetrics()
afterAll(() => metrics.close())
const redis = openRedis(inject("redis"), "peer log test", () => {})
beforeAll(() => redis.connect())
afterAll(() => redis.quit())

const item = (s: number): LogItem => ({ s, header: ["b"], data: "", bytes: 1 })

test("the first piece after a position is found by halving", () => {
  const items = [3, 5, 9].map(item)
  expect([0, 2, 3, 4, 5, 8, 9, 100].map(position => firstAfter(items, position))).toEqual([0, 0, 1, 1, 2, 2, 3, 3])
  expect(firstAfter([], 7)).toBe(0)
})

/** What a session is sent of a slice: positions there, and here. */
function sent(slice: PeerLogSlice): { s: number; here: number }[] {
  const pieces: { s: number; here: number }[] = []
  for (let at = nextPiece(slice); at !== undefined; at = nextPiece(slice)) {
    if (belongsTo(slice.segment, slice.items[at]!)) pieces.push({ s: slice.items[at]!.s, here: slice.base + at })
    passPiece(slice, at)
  }
  return pieces
}

async function open(maxBytes = 1_000_000) {
  const keys = redisKeys(`test-${randomUUID()}:`)
  const logs = new DeliveryLogs(redis, redis, keys)
  let now = 0
  const clock = { ...systemClock, now: () => now, monotonic: () => now }
  await logs.create("a", 5000)
  await logs.create("b", 1000)
  const living = new Set<string>()
  const peers = new PeerLogs({
    logs,
    isReal: async () => true,
    isLiving: worker => living.has(worker),
    self: "b",
    maxBytes,
    keep: 60_000,
    clock,
    metrics,
  })
  let number = 0
  const append = async (count: number, data = "x") => {
    const fields = Array.from({ length: count }, () => [`["e",1,${number + 1},"home"]`, data]).flat()
    await logs.append("a", [{ shard: 1, epoch: 1, number: number + 1, before: number, fields }])
    number++
  }
  return { keys, logs, peers, append, living, passes: (ms: number) => (now += ms) }
}

/** A segment of log spans that begins after a position of that log. */
const segment = (start: number, log = "a"): ReplaySegment => ({
  log,
  start,
  after: undefined,
  until: new Map([["home", 99]]),
})

/** Positions without end for what lies after 5000, or as many as are asked for. */
const reserved = (length = Infinity, lo = 7) => ({ since: 5000, lo, hi: lo + length })

test("P5: a log that came to another Redis is not read until its owners have sent again what it lacks", async () => {
  const { logs, peers, append } = await open()
  await append(2)
  const here = logs.at("a")
  expect(sent(await peers.read(segment(5000), reserved(), "7", [here, here]))).toHaveLength(2)
  for (const places of [["another"], [here, "another"], [""]])
    await expect(peers.read(segment(5000), reserved(), "7", places)).rejects.toMatchObject({ code: "unavailable" })
})

test("a log is read to its present end, from any position it still reaches", async () => {
  const { logs, peers, append } = await open()
  const after = async (start: number, log?: string) =>
    sent(await peers.read(segment(start, log), { ...reserved(), since: Math.min(start, 5000) })).map(one => one.s)
  await append(700)
  await append(900)
  const all = (await logs.read("a", 0, 10_000)).map(one => one.s)
  expect(await after(all[800]!)).toEqual(all.slice(801))
  expect(await after(5000)).toEqual(all.slice(1))
  await append(3)
  expect(await after(all.at(-1)!)).toHaveLength(3)
  // What stood where a log begins now that was made anew is not in it.
  await expect(after(4999)).rejects.toThrow(LogTruncated)
  await expect(after(5000, "nobody")).rejects.toThrow(LogTruncated)
})

test("many who come at once share one reading", async () => {
  const { logs, peers, append } = await open()
  await append(1200)
  let reads = 0
  const read = logs.read.bind(logs)
  logs.read = (...args) => {
    reads++
    return read(...args)
  }
  const found = await Promise.all(Array.from({ length: 20 }, () => peers.read(segment(5000), reserved())))
  expect(new Set(found.map(slice => sent(slice).length))).toEqual(new Set([1200]))
  // However many they are, the pieces are there once.
  expect(new Set(found.map(({ items }) => items)).size).toBe(1)
  expect(reads).toBeLessThanOrEqual(3)
})

test("what is too much to hold, has a gap, or goes beyond the reserved positions is out of reach", async () => {
  const { logs, peers, append } = await open(1000)
  await append(2)
  // However far their own positions lie from the start, two pieces take two.
  expect((await logs.lastPosition("a"))! - 5000).toBeGreaterThan(1000)
  expect(sent(await peers.read(segment(5000), reserved(3)))).toHaveLength(2)
  await expect(peers.read(segment(5000), reserved(2))).rejects.toThrow(LogTruncated) // the last one is kept for what is told after them
  // What belongs to the log after this one needs none.
  expect(sent(await peers.read({ ...segment(5000), until: new Map([["home", 0]]) }, reserved(1)))).toHaveLength(0)
  await append(20, "x".repeat(100))
  await expect(peers.read(segment(5000), reserved())).rejects.toThrow(LogTruncated)

  const { logs: others, peers: reader } = await open()
  await others.append("a", [{ shard: 1, epoch: 1, number: 9, before: null, fields: ['["g",1,9]', ""] }])
  await expect(reader.read(segment(5000), reserved())).rejects.toThrow(LogTruncated)
})

test("P5, P6: of a dead worker's log above the bound each session gets what it missed; who missed more is refused alone", async () => {
  const { logs, peers, append } = await open(1000)
  for (let i = 0; i < 20; i++) await append(1, "x".repeat(100))
  const all = (await logs.read("a", 5000, 100)).map(one => one.s)
  let reads: number[] = []
  const read = logs.read.bind(logs)
  logs.read = (worker, position, entries) => {
    reads.push(position)
    return read(worker, position, entries)
  }
  const ask = { isLiving: false, above: 0 }
  const resume = async (start: number) => {
    const join = await peers.join("a", { ...ask, start })
    return { join, slice: await peers.read(segment(start), join) }
  }
  const [little, more, far] = [all[17]!, all[13]!, all[4]!]
  // They begin where they stopped, and who comes later from an earlier position reads what lies
  // between.
  const first = await resume(little)
  expect(sent(first.slice).map(one => one.s)).toEqual(all.slice(18))
  expect(reads).toEqual([little])
  const second = await resume(more)
  const given = sent(second.slice)
  expect(given.map(one => one.s)).toEqual(all.slice(14))
  expect(reads).toEqual([little, more])
  await expect(resume(far)).rejects.toThrow(LogTruncated)
  expect(reads).toEqual([little, more, far])
  // All of them at once: nobody is refused for another, and nothing is read again.
  reads = []
  const outcomes = await Promise.allSettled([far, little, 5000, more, all[2]!, all[19]!].map(resume))
  expect(outcomes.map(({ status }) => status === "fulfilled")).toEqual([false, true, false, true, false, true])
  expect(reads).toEqual([])
  // Positions are those that were given before.
  expect(sent(await peers.read(segment(little), second.join))).toEqual(given.slice(4))
  // Owners still append to it: a join that begins too early by now serves those who missed little.
  await append(1, "x".repeat(900))
  expect(sent(await peers.read(segment(all[19]!), second.join))).toHaveLength(1)
  await expect(peers.read(segment(more), second.join)).rejects.toThrow(LogTruncated)
  const span: Span = { ...second.join, counted: true }
  const other = new PeerLogs({
    logs,
    isReal: async () => true,
    isLiving: () => false,
    self: "b",
    maxBytes: 1000,
    keep: 60_000,
    clock: systemClock,
    metrics,
  })
  expect(await other.positionAt(span, given.at(-1)!.here)).toBe(all[19])
  expect(sent(await other.read(segment(all[19]!), second.join))).toHaveLength(1)
})

/** The join markers in a worker's log. */
const markersIn = async (logs: DeliveryLogs, worker: string) =>
  (await logs.read(worker, 1000, 10_000)).flatMap(({ header }) => (header[0] === "m" ? [header] : []))

test("P5: sessions that stopped all over a dead worker's log share one join, and each part of it is read once", async () => {
  const { logs, peers, append } = await open(10_000_000)
  for (let i = 0; i < 30; i++) await append(40)
  const all = (await logs.read("a", 5000, 10_000)).map(one => one.s)
  let read = 0
  const readLog = logs.read.bind(logs)
  logs.read = async (...args) => {
    const items = await readLog(...args)
    read += items.length
    return items
  }
  const starts = Array.from({ length: 300 }, (_, i) => all[(i * 379) % 1_199]!)
  const slices = await Promise.all(
    starts.map(async start => {
      const join = await peers.join("a", { start, isLiving: false, above: 0 })
      return peers.read(segment(start), join)
    }),
  )
  for (const [i, slice] of slices.entries())
    expect(sent(slice).map(one => one.s)).toEqual(all.slice(all.indexOf(starts[i]!) + 1))
  // What is read for an earlier position may overlap what was read before, by one read at most.
  expect(read).toBeLessThanOrEqual(3 * all.length)
  expect(await markersIn({ read: readLog } as DeliveryLogs, "b")).toHaveLength(1)
})

test("P5: who comes later from an earlier position of a dead worker's log has positions before the others', of the same join", async () => {
  const { logs, peers, append } = await open()
  await append(40)
  const all = (await logs.read("a", 5000, 100)).map(one => one.s)
  const ask = { isLiving: false, above: (await logs.lastPosition("a"))! }
  const here = new Map<number, number>()
  for (const at of [30, 12, 20, 3, 0]) {
    const start = all[at]!
    const join = await peers.join("a", { ...ask, start })
    expect(join.lo).toBeGreaterThan(ask.above)
    expect(await markersIn(logs, "b")).toHaveLength(1)
    const span: Span = { ...join, counted: true }
    const slice = sent(await peers.read(segment(start), join))
    expect(slice.map(one => one.s)).toEqual(all.slice(at + 1))
    for (const one of slice) {
      // Each item has one position here, to all sessions, and that leads back to it.
      expect(one.here).toBe(here.get(one.s) ?? one.here)
      here.set(one.s, one.here)
      expect(await peers.positionAt(span, one.here)).toBe(one.s)
    }
    expect(await peers.positionAt(span, join.lo)).toBe(join.since)
  }
  const positions = all.slice(1).map(s => here.get(s)!)
  expect(positions).toEqual(positions.map((_, i) => positions[0]! + i))
  // Somebody whose client has seen more than that needs another.
  await peers.join("a", { start: all[0]!, isLiving: false, above: positions.at(-1)! })
  expect(await markersIn(logs, "b")).toHaveLength(2)
})

test("a join reserves positions for what lies after the start, above all that either log gave out, and serves all who come", async () => {
  const { logs, peers, append } = await open()
  await append(10)
  const last = (await logs.lastPosition("a"))!
  const ask = { start: 5000, isLiving: false, above: last }
  const join = await peers.join("a", ask)
  expect(join.log).toBe("a")
  expect(join.since).toBeLessThanOrEqual(5000)
  expect(join.lo).toBeGreaterThan(last)
  const pieces = (await logs.read("a", join.since, 10_000)).length
  expect(pieces).toBeGreaterThanOrEqual(10)
  expect(join.hi - join.lo).toBeGreaterThanOrEqual(pieces)
  expect(await logs.lastPosition("b")).toBe(join.hi)
  const marker = (await logs.read("b", 1000, 10)).map(({ header }) => header)
  expect(marker).toEqual([["m", "a", join.since, join.hi - join.first + 1]])
  expect(await peers.join("a", ask)).toBe(join)
  // Somebody who has seen more than the join begins with needs another.
  const above = await peers.join("a", { ...ask, above: join.lo })
  expect(above.lo).toBeGreaterThan(join.hi)
})

test("the join of a log that still grows is made anew after a while, and for a session that stopped before it begins", async () => {
  const { logs, peers, append, passes } = await open()
  await append(5)
  const last = (await logs.lastPosition("a"))!
  const ask = { start: last - 1, isLiving: true, above: 0 }
  const join = await peers.join("a", ask)
  expect(await peers.join("a", ask)).toBe(join)
  const earlier = await peers.join("a", { ...ask, start: last - 4 })
  expect(earlier.since).toBeLessThanOrEqual(last - 4)
  passes(5_001)
  expect(await peers.join("a", ask)).not.toBe(earlier)
})

test("P2, P5: after a worker's death its log is joined anew, above all positions that the worker gave out while it lived", async () => {
  const { logs, peers, append } = await open()
  await append(5)
  const start = (await logs.lastPosition("a"))! - 2
  const join = await peers.join("a", { start, isLiving: true, above: 0 })
  // Some of it has the positions that were reserved here for what lay before.
  await append(30_000)
  const last = (await logs.lastPosition("a"))!
  const after = await peers.join("a", { start, isLiving: false, above: 0 })
  expect(after).not.toBe(join)
  expect(after.lo).toBeGreaterThan(last)
  expect(await peers.join("a", { start, isLiving: false, above: 0 })).toBe(after)
})

test("the pieces have the positions after the join's first, one each, wherever the segment begins; each leads back to its piece", async () => {
  const { logs, peers, append } = await open()
  // Far apart in their own log.
  for (const count of [3, 1, 4]) {
    await append(count)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
  const all = (await logs.read("a", 5000, 100)).map(one => one.s)
  expect(all).toHaveLength(8)
  expect(all.at(-1)! - all[0]!).toBeGreaterThan(8)
  for (const isLiving of [false, true]) {
    const join = await peers.join("a", { start: 5000, isLiving, above: 0 })
    const whole = await peers.read(segment(5000), join)
    expect(sent(whole).map(one => one.s)).toEqual(all)
    const span: Span = { ...join, counted: true }
    expect(await peers.positionAt(span, join.lo)).toBe(join.since)
    expect(await peers.positionAt(span, whole.first - 1)).toBe(5000)
    for (const [i, s] of all.entries()) {
      expect(await peers.positionAt(span, whole.first + i)).toBe(s)
      // A client that has seen this item goes on with the next, which has the same position for
      // all.
      const rest = await peers.read(segment(s), join)
      expect(rest.first).toBe(whole.first + i + 1)
      expect(sent(rest)).toEqual(all.slice(i + 1).map((s, n) => ({ s, here: rest.first + n })))
    }
    await expect(peers.positionAt(span, whole.first + all.length)).rejects.toThrow(LogTruncated)
  }
})

test("where a session lived, positions are the log's own, from where it began to read", async () => {
  const { peers } = await open()
  const span: Span = { log: "a", lo: 6001, hi: null, counted: false, since: 6000 }
  expect(await peers.positionAt(span, 7000)).toBe(7000)
  expect(await peers.positionAt({ ...span, since: 6500 }, 6400)).toBe(6500)
})

test("logs that nobody came for lately go out of memory; they can be read again", async () => {
  const { logs, peers, append, passes } = await open()
  await append(5)
  await peers.read(segment(5000), reserved())
  passes(60_001)
  peers.sweep()
  expect(sent(await peers.read(segment(5000), reserved()))).toHaveLength(5)
  await logs.drop("a")
  await expect(peers.read(segment(5000), reserved())).rejects.toThrow(LogTruncated)
})

test("a gap before a segment's start refuses nobody who was past it", async () => {
  const { logs, peers } = await open()
  await logs.append("a", [{ shard: 1, epoch: 1, number: 9, before: null, fields: ['["g",1,9]', ""] }])
  const past = (await logs.lastPosition("a"))!
  await logs.append("a", [{ shard: 1, epoch: 1, number: 10, before: 9, fields: ['["e",1,10,"home"]', "x"] }])
  const join = await peers.join("a", { start: past, isLiving: false, above: 0 })
  expect(sent(await peers.read(segment(past), join))).toHaveLength(1)
  await expect(peers.read(segment(5000), join)).rejects.toThrow(LogTruncated)
  const whole = await peers.join("a", { start: 5000, isLiving: false, above: 0 })
  await expect(peers.read(segment(5000), whole)).rejects.toThrow("a gap lies between")
  // Nor when the session comes back later: its log spans say where it began in that log.
  const span: Span = { ...join, counted: true, start: past }
  const before: Span = { log: "z", lo: 1, hi: 2, counted: true, since: 0 }
  const [, second] = segmentsFrom([before, span], before, 0, new Map([["home", 99]]))
  expect(sent(await peers.read(second!, join))).toHaveLength(1)
})

test("P5, P6: a living worker's log that is not there yet is waited for; a dead one's is gone", async () => {
  const { peers, living, logs } = await open()
  living.add("later")
  const join = () => peers.join("later", { start: 5000, isLiving: living.has("later"), above: 0 })
  await expect(join()).rejects.toThrow("temporarily unavailable")
  await logs.create("later", 4000)
  expect((await join()).since).toBe(5000)
  await logs.drop("later")
  living.delete("later")
  await expect(join()).rejects.toThrow(LogTruncated)
})
