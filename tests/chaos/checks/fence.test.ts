import { expect, test } from "vitest"
import { fence } from "./fence.ts"
import { Story } from "./history-of.ts"

const pause = "worker paused for twice its lease"
const paused = (takeOvers: number) =>
  new Story()
    .send("1")
    .counters({ takeOvers: 0 })
    .fault(pause, "worker", story => story.wait(5_500).counters({ takeOvers }))
    .send("2")

test("P7: a paused owner is replaced, and commits are in the order of ids", () => {
  expect(fence(paused(341).history)).toEqual([])
})

test("P7: an owner that ignores its epoch and commits late is found", () => {
  const story = paused(341).send("4").store({ id: "5", author: "ada", content: "stale", committed: 1 })
  expect(fence(story.history)).toHaveLength(1)
})

test("P7: a pause in which nobody takes over is found", () => {
  expect(fence(paused(0).history)).toHaveLength(1)
})

test("P7: a short pause needs no successor", () => {
  const story = new Story().counters({ takeOvers: 0 }).fault(pause, "worker", story => story.wait(2_000))
  expect(fence(story.history)).toEqual([])
})
