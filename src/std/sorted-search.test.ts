import fc from "fast-check"
import { expect, test } from "vitest"
import { firstNotBelow } from "./sorted-search.ts"

test("the first number that is not below one is found as by looking at each", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 20 })), fc.integer({ min: -1, max: 21 }), (numbers, least) => {
      const sorted = numbers.toSorted((a, b) => a - b)
      const found = firstNotBelow(sorted.length, i => sorted[i]! < least)
      const expected = sorted.findIndex(number => number >= least)
      expect(found).toBe(expected === -1 ? sorted.length : expected)
    }),
  )
})

test("few places are looked at", () => {
  let looks = 0
  expect(firstNotBelow(1_000_000, i => (looks++, i < 777_777))).toBe(777_777)
  expect(looks).toBeLessThanOrEqual(20)
})
