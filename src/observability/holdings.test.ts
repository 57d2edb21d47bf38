import { expect, test } from "vitest"
import { Holdings, largest } from "./holdings.ts"
import { SlowRequests } from "./slow-requests.ts"

test("the largest of many are found in order, and what has no size is none of them", () => {
  const sizes = Array.from({ length: 500 }, (_, i) => (i * 7919) % 500)
  expect(largest(sizes, size => size, 4)).toEqual([499, 498, 497, 496])
  expect(largest([0, 0, 3], size => size)).toEqual([3])
})

test("a part that cannot say what it holds says why, and the others are shown", () => {
  const holdings = new Holdings()
  holdings.show("broken", () => {
    throw new Error("gone")
  })
  holdings.show("homes", () => ({ loaded: 2 }))
  expect(holdings.look()).toEqual({ broken: { error: "gone" }, homes: { loaded: 2 } })
})

test("the slowest requests of a span and of the one before it are kept, ten at most", () => {
  let nowMs = 0
  const slow = new SlowRequests(1_000, () => nowMs)
  const seconds = () => slow.slowest.map(request => request.seconds)
  slow.note("GET", "/quick", 200, 0.01)
  expect(seconds()).toEqual([])
  for (let i = 1; i <= 30; i++) slow.note("GET", "/some", 200, i)
  expect(seconds()).toEqual([30, 29, 28, 27, 26, 25, 24, 23, 22, 21])
  nowMs = 1_500
  slow.note("POST", "/other", 503, 25.5)
  expect(seconds()).toEqual([30, 29, 28, 27, 26, 25.5, 25, 24, 23, 22])
  nowMs = 2_600
  expect(seconds()).toEqual([25.5])
  nowMs = 9_000
  expect(seconds()).toEqual([])
})
