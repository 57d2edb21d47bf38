import { expect, test } from "vitest"
import { PoolWaits } from "./pool-waits.ts"

test("a statement waits while all connections are busy, until the first of them is free", () => {
  let nowMs = 0
  const told: number[] = []
  const waits = new PoolWaits(2, { nowMs: () => nowMs, onWaited: seconds => told.push(seconds) })
  waits.begin()
  waits.begin()
  expect(waits.figures).toEqual({ total: 2, waits: 0, waitedSeconds: 0, longestSeconds: 0 })
  waits.begin()
  nowMs = 1_000
  waits.begin()
  nowMs = 3_000
  waits.end() // the third runs
  expect(waits.figures).toEqual({ total: 4, waits: 2, waitedSeconds: 3, longestSeconds: 3 })
  nowMs = 3_500
  waits.end() // the fourth runs
  waits.end()
  waits.end()
  expect(waits.figures).toEqual({ total: 4, waits: 2, waitedSeconds: 5.5, longestSeconds: 3 })
  waits.begin()
  expect(waits.figures.waits).toBe(2)
  expect(told).toEqual([3, 2.5])
})
