import fc from "fast-check"
import { expect, test } from "vitest"
import {
  compareIds,
  earliestImportedMs,
  epochMs,
  firstIdAt,
  firstIdSaidAt,
  firstImportedSequence,
  highestId,
  idOf,
  importedId,
  importedMs,
  importedPerMs,
  markOf,
  msOf,
  nextMark,
  secondsOf,
  sequenceOf,
  shardCount,
  shardOf,
  type IdMark,
} from "./snowflake.ts"

const shard = fc.integer({ min: 0, max: shardCount - 1 })
const mark = fc.record({
  ms: fc.integer({ min: epochMs, max: epochMs + 2 ** 41 - 1 }),
  sequence: fc.integer({ min: 0, max: 4095 }),
})

const formerWeeks = 42 * 86_400_000

test("what was said elsewhere keeps its second and its order, also from before the epoch", () => {
  const saidAt = fc.oneof(
    fc.integer({ min: Math.ceil(earliestImportedMs), max: epochMs + 2 * formerWeeks }),
    fc.integer({ min: epochMs - 10_000, max: epochMs + 10_000 }),
    fc.integer({ min: epochMs + formerWeeks - 10_000, max: epochMs + formerWeeks + 10_000 }),
    fc.integer({ min: epochMs, max: epochMs + 2 ** 41 - 1 }),
  )
  fc.assert(
    fc.property(shard, saidAt, saidAt, fc.integer({ min: 0, max: importedPerMs - 1 }), (number, one, other, nth) => {
      const id = importedId(number, importedMs(one), nth)
      expect(shardOf(id)).toBe(number)
      expect(secondsOf(id)).toBe(Math.floor(one / 1000))
      // Of one unit the sequence tells which was first.
      if (importedMs(one) < importedMs(other))
        expect(compareIds(id, importedId(number, importedMs(other), 0))).toBeLessThan(0)
      if (one < other) expect(importedMs(one)).toBeLessThanOrEqual(importedMs(other))
      expect(compareIds(id, firstIdSaidAt(one))).toBeGreaterThanOrEqual(0)
      expect(compareIds(id, firstIdSaidAt(one + 1_000))).toBeLessThan(0)
    }),
    { numRuns: 1_000 },
  )
  expect(secondsOf(importedId(1, importedMs(0), 0))).toBe(Math.floor(earliestImportedMs / 1000))
  expect(importedId(0, importedMs(0), 0).length).toBeGreaterThanOrEqual(10)
})

test("an id says its shard and when it was made", () => {
  fc.assert(
    fc.property(shard, mark, (number, when) => {
      const id = idOf(number, when)
      expect(shardOf(id)).toBe(number)
      expect(markOf(id)).toEqual(when)
      expect(msOf(id)).toBe(when.ms)
      const isImported = when.ms < epochMs + formerWeeks && when.sequence >= firstImportedSequence
      if (!isImported) expect(secondsOf(id)).toBe(Math.floor(when.ms / 1000))
      expect(BigInt(id)).toBeLessThan(2n ** 63n)
    }),
  )
})

test("numbers make of any id of 64 bits what its bits say", () => {
  const anyId = fc.oneof(
    fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }),
    // A clock that stands before the epoch, as in tests.
    fc.bigInt({ min: -(2n ** 62n), max: 0n }),
    // Few bits as well, and those around a change of length or of unit.
    fc.tuple(fc.integer({ min: 0, max: 62 }), fc.integer({ min: -2, max: 2 })).map(([bit, by]) => {
      const near = 2n ** BigInt(bit) + BigInt(by)
      return near < 0n ? 0n : near
    }),
    fc.tuple(fc.integer({ min: 0, max: 18 }), fc.integer({ min: -2, max: 2 })).map(([digit, by]) => {
      const near = 10n ** BigInt(digit) + BigInt(by)
      return near < 0n ? 0n : near
    }),
  )
  fc.assert(
    fc.property(anyId, bits => {
      const id = bits.toString()
      expect(shardOf(id)).toBe(Number((bits >> 12n) & 1023n))
      expect(msOf(id)).toBe(Number(bits >> 22n) + epochMs)
      expect(sequenceOf(id)).toBe(Number(bits & 4095n))
      expect(idOf(shardOf(id), markOf(id))).toBe(id)
      const ms = Number(bits >> 22n) + epochMs
      // As PostgreSQL's driver hands out small ones.
      if (bits >= 0n && bits < 10n ** 14n) {
        const number = Number(bits) as unknown as string
        expect([shardOf(number), msOf(number), sequenceOf(number)]).toEqual([shardOf(id), msOf(id), sequenceOf(id)])
      }
      if (bits >= 0n) expect(firstIdAt(ms + 0.5)).toBe(((bits >> 22n) << 22n).toString())
    }),
    { numRuns: 2_000 },
  )
  expect(msOf(highestId)).toBe(Number((2n ** 63n - 1n) >> 22n) + epochMs)
})

test("what is no id is not taken for one", () => {
  for (const text of ["1.5", "12a", "x".repeat(19), "a123456789012"]) {
    expect(() => shardOf(text)).toThrow(SyntaxError)
    expect(() => msOf(text)).toThrow(SyntaxError)
  }
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
