/** What a comparison of two commits says of its figures. */
import { expect, test } from "vitest"
import { lineOf } from "../../bench/compare.ts"
import { medianInterval } from "../../bench/statistics.ts"

const upTo = (n: number) => Array.from({ length: n }, (_, i) => i + 1)

test("the interval of a median takes the ranks that hold it with 95 % certainty", () => {
  // Published tables of the sign test's interval: 6 values 1 and 6, 9 values 2 and 8, 15 values 4 and 12, 25 values 8 and 18.
  expect([6, 8, 9, 12, 15, 20, 25].map(n => medianInterval(upTo(n)))).toEqual([
    { median: 3.5, from: 1, to: 6 },
    { median: 4.5, from: 1, to: 8 },
    { median: 5, from: 2, to: 8 },
    { median: 6.5, from: 3, to: 10 },
    { median: 8, from: 4, to: 12 },
    { median: 10.5, from: 6, to: 15 },
    { median: 13, from: 8, to: 18 },
  ])
  expect(medianInterval([3, 1, 2])).toEqual({ median: 2, from: 1, to: 3 })
})

test("a comparison says which is less only where the interval leaves out one", () => {
  const turns = (ratios: readonly number[]) => ratios.map((ratio, i) => [100 + i, (100 + i) * ratio, 10])
  const less = lineOf("µs per post", ["a", "b", "bare"], turns([0.8, 0.9, 0.85, 0.95, 0.7, 0.9, 0.88]))
  expect(less).toBe(
    "µs per post: a 103, b 90.9, bare 10.0; beside bare: a 10.30 ×, b 9.09 ×; b beside a: −12.0 % (−30.0 % to −5.0 %), less",
  )
  expect(lineOf("x", ["a", "b"], turns([0.8, 0.9, 0.85, 1.1, 0.7, 0.9, 1.2]))).toContain("no difference seen")
  expect(lineOf("x", ["a", "b"], turns([1.8, 1.9, 1.85, 1.1, 1.7, 1.9, 1.2]))).toMatch(/\+80\.0 % .*, more$/)
  expect(lineOf("x", ["a", "b"], turns([1.8, 1.9, 1.85, 1.1, 1.7]))).toMatch(/, too few turns$/)
})
