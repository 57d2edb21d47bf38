import fc from "fast-check"
import { expect, test } from "vitest"
import { bucketCount, bucketOf, largestCounted, middleOf, percentileOf } from "./log-histogram.ts"

const numbers = fc.oneof(
  fc.integer({ min: 0, max: 40 }),
  fc.integer({ min: 0, max: 100_000 }),
  fc.integer({ min: 0, max: largestCounted }),
)

test("buckets rise without a gap, and the middle of each stands within it, at most 1/32 off", () => {
  expect(bucketOf(largestCounted)).toBe(bucketCount - 1)
  for (let bucket = 0; bucket < bucketCount; bucket++) expect(bucketOf(Math.floor(middleOf(bucket)))).toBe(bucket)
  fc.assert(
    fc.property(numbers, value => {
      const bucket = bucketOf(value)
      expect(Math.abs(middleOf(bucket) - value)).toBeLessThanOrEqual(value / 32)
      if (value < largestCounted) expect([0, 1]).toContain(bucketOf(value + 1) - bucket)
    }),
  )
})

test("percentiles are those of the numbers themselves, to 1/32", () => {
  fc.assert(
    fc.property(
      fc.array(numbers, { minLength: 1, maxLength: 400 }),
      fc.constantFrom(0.5, 0.95, 0.99, 1, 0.001),
      (values, share) => {
        const counts = new Map<number, number>()
        for (const value of values) counts.set(bucketOf(value), (counts.get(bucketOf(value)) ?? 0) + 1)
        const rising = [...counts].toSorted(([a], [b]) => a - b)
        const exact = values.toSorted((a, b) => a - b)[Math.ceil(values.length * share) - 1]!
        const found = percentileOf(
          rising.map(([bucket]) => bucket),
          rising.map(([, count]) => count),
          share,
        )
        expect(Math.abs(found - exact)).toBeLessThanOrEqual(exact / 32)
      },
    ),
    { numRuns: 300 },
  )
})

test("of nothing every percentile is 0", () => {
  expect(percentileOf([], [], 0.5)).toBe(0)
})
