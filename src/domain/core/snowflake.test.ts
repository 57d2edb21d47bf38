import fc from "fast-check"
import { expect, test } from "vitest"
import {
  compareIds,
  epochMs,
  firstIdAt,
  idOf,
  markOf,
  msOf,
  nextMark,
  secondsOf,
  shardCount,
  shardOf,
  type IdMark,
} from "./snowflake.ts"

const shard = fc.integer({ min: 0, max: shardCount - 1 })
const mark = fc.record({
  ms: fc.integer({ min: epochMs, max: epochMs + 2 ** 41 - 1 }),
  sequence: fc.integer({ min: 0, max: 4095 }),
})

test("an id says its shard and when it was made", () => {
  fc.assert(
    fc.property(shard, mark, (number, when) => {
      const id = idOf(number, when)
      expect(shardOf(id)).toBe(number)
      expect(markOf(id)).toEqual(when)
      expect(msOf(id)).toBe(when.ms)
      expect(secondsOf(id)).toBe(Math.floor(when.ms / 1000))
      expect(BigInt(id)).toBeLessThan(2n ** 63n)
    }),
  )
})

test("SHARD1: ids of a shard rise strictly whatever the clock does", () => {
  fc.assert(
    fc.property(
      shard,
      mark,
      fc.array(fc.oneof(fc.integer({ min: -3_600_000, max: 3_600_000 }), fc.constant(0), fc.constant(1)), {
        maxLength: 200,
      }),
      (number, start, steps) => {
        let last: IdMark = start
        let now = start.ms
        for (const step of steps) {
          now += step
          const next = nextMark(last, now)
          expect(compareIds(idOf(number, next), idOf(number, last))).toBeGreaterThan(0)
          last = next
        }
      },
    ),
    { numRuns: 50 },
  )
})

test("more than 4,096 ids of one millisecond run on into the next", () => {
  const at = epochMs + 1000
  let last: IdMark = { ms: at, sequence: 0 }
  const ids = new Set([idOf(3, last)])
  for (let i = 0; i < 10_000; i++) ids.add(idOf(3, (last = nextMark(last, at))))
  expect(ids.size).toBe(10_001)
  expect(last.ms).toBe(at + 2)
  expect(new Set([...ids].map(shardOf))).toEqual(new Set([3]))
})

test("ids of a time range are the ids between two first ids", () => {
  fc.assert(
    fc.property(shard, mark, (number, when) => {
      const id = idOf(number, when)
      expect(compareIds(id, firstIdAt(when.ms))).toBeGreaterThanOrEqual(0)
      expect(compareIds(id, firstIdAt(when.ms + 1))).toBeLessThan(0)
    }),
  )
  expect(firstIdAt(0)).toBe("0")
})

test("ids compare as numbers, also when they are of different length", () => {
  const id = fc.bigInt({ min: 0n, max: 2n ** 63n - 1n })
  fc.assert(
    fc.property(id, id, (a, b) => {
      expect(Math.sign(compareIds(a.toString(), b.toString()))).toBe(a < b ? -1 : a > b ? 1 : 0)
    }),
  )
})
