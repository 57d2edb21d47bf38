import { expect, test } from "vitest"
import type { LogItem } from "../../domain/core/log-entry.ts"
import { systemClock } from "../../std/system-clock.ts"
import { OwnLog } from "./own-log.ts"

const item = (s: number, bytes = 10): LogItem => ({ s, header: ["b"], data: "", bytes })

/** A log of items 1 to `count`, ten to a read. */
function open(count: number, { bytes = 10, monotonic = () => 0 }: { bytes?: number; monotonic?: () => number } = {}) {
  const reads: number[] = []
  let at = "here"
  let underWay = 0
  let soon = 0
  let failure: Error | undefined
  const log = new OwnLog({
    self: "w",
    streams: () => ({ oldest: 0, at }),
    logs: {
      at: () => at,
      async read(_worker, position) {
        expect(++underWay).toBe(1)
        reads.push(position)
        await systemClock.sleep(1)
        underWay--
        if (failure) throw failure
        return Array.from({ length: Math.min(10, count - position) }, (_, i) => item(position + 1 + i, bytes))
      },
    },
    clock: {
      ...systemClock,
      monotonic,
      soon(action) {
        soon++
        systemClock.soon(action)
      },
    },
  })
  /** Reads to the end from a position, as a session does. */
  const readOn = (from: number) =>
    new Promise<number[]>((resolve, reject) => {
      const seen: number[] = []
      const pump = (error?: unknown) => {
        if (error !== undefined) return reject(new Error("not read", { cause: error }))
        for (;;) {
          const position = seen.at(-1) ?? from
          if (position === count) return resolve(seen)
          const items = log.after(position)
          if (!items) return log.need(position, pump)
          seen.push(...items.map(({ s }) => s))
        }
      }
      pump()
    })
  return {
    log,
    reads,
    readOn,
    slices: () => soon,
    fail: (error: Error | undefined) => (failure = error),
    moveTo: (place: string) => (at = place),
  }
}
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + 1 + i)

test("OWN1: however many read from about one place, each part of the log is read once", async () => {
  const { readOn, reads } = open(100)
  const starts = [0, 0, 0, 3, 3, 7, 0, 9]
  expect(await Promise.all(starts.map(readOn))).toEqual(starts.map(from => range(from, 100)))
  expect(reads).toEqual([0, 10, 20, 30, 40, 50, 60, 70, 80, 90])
})

test("OWN1: those who stand elsewhere have their turn, one read after another", async () => {
  const { readOn, reads } = open(200)
  expect(await Promise.all([0, 100, 150].map(readOn))).toEqual([range(0, 200), range(100, 200), range(150, 200)])
  expect(reads.slice(0, 3)).toEqual([0, 100, 150])
  // Each goes on from where it stands; nobody reads what another has just read.
  expect(reads).toHaveLength(20)
})

test("OWN2: what was read is handed over in slices, and the next read waits for that", async () => {
  let now = 0
  const { readOn, slices } = open(20, { monotonic: () => (now += 5) })
  await Promise.all(Array.from({ length: 30 }, () => readOn(0)))
  expect(slices()).toBeGreaterThanOrEqual(20)
})

test("a failed read is told to all who wait; one who asks again is served", async () => {
  const { readOn, fail, moveTo, reads } = open(20)
  fail(new Error("away"))
  const outcomes = await Promise.allSettled([0, 5, 12].map(readOn))
  expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"])
  fail(undefined)
  expect(await readOn(5)).toEqual(range(5, 20))
  // In another Redis the same position may be another one.
  const before = reads.length
  moveTo("elsewhere")
  expect(await readOn(5)).toEqual(range(5, 20))
  expect(reads.length).toBeGreaterThan(before)
})

test("what is kept has a bound in bytes, and goes when nobody uses it", async () => {
  const { log, readOn, reads } = open(100, { bytes: 200_000 })
  await readOn(0)
  expect(reads).toHaveLength(10)
  // Of 20 megabytes the newest eight are kept.
  expect(log.after(0)).toBeUndefined()
  expect(log.after(90)).toHaveLength(10)
  log.sweep()
  expect(log.after(90)).toHaveLength(10)
  log.sweep()
  log.sweep()
  expect(log.after(90)).toBeUndefined()
})
