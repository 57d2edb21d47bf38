import { expect, test } from "vitest"
import { RecentCounts } from "./recent-counts.ts"

test("counts each key within the last window, and forgets what is older", () => {
  const counts = new RecentCounts(10)
  expect([counts.count("a", 0), counts.count("a", 1), counts.count("b", 1)]).toEqual([1, 2, 1])
  expect([counts.count("a", 6), counts.count("a", 9)]).toEqual([3, 4])
  // What came at 0 and 1 is older than a window.
  expect(counts.count("a", 12)).toBe(3)
  expect(counts.count("a", 40)).toBe(1)
})

test("has a bound on its keys", () => {
  const counts = new RecentCounts(10, 2)
  expect(["a", "b", "c", "c", "a"].map(key => counts.count(key, 1))).toEqual([1, 1, 1, 1, 2])
})
