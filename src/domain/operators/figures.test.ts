import { expect, test } from "vitest"
import { bucketsOf, quantile } from "./figures.ts"

const bounds = [10, 20, 40]

test("a quantile lies in its bucket, in the share that it is of it", () => {
  expect(quantile([0, 0, 0, 0], 0.5, bounds)).toBeNull()
  expect(quantile([10, 0, 0, 0], 0.5, bounds)).toBe(5)
  expect(quantile([50, 50, 0, 0], 0.5, bounds)).toBe(10)
  expect(quantile([50, 50, 0, 0], 0.75, bounds)).toBe(15)
  expect(quantile([0, 0, 100, 0], 0.99, bounds)).toBeCloseTo(39.8)
  // Above the last bound nothing is known but that.
  expect(quantile([1, 0, 0, 99], 0.99, bounds)).toBe(40)
})

test("buckets are what lies between two bounds", () => {
  expect(bucketsOf([3, 3, 7, 8])).toEqual([3, 0, 4, 1])
  expect(bucketsOf([])).toEqual([])
})
