import { expect, test } from "vitest"
import { Story } from "./history-of.ts"
import { gapsOf, takeOver } from "./take-over.ts"

const killed = (silence: number) =>
  new Story()
    .send("1")
    .fault("worker killed", "worker", () => {})
    .wait(silence)
    .send("2")

test("P8: a channel that goes on in time", () => {
  const { history } = killed(3_000)
  expect(takeOver(history)).toEqual([])
  expect(gapsOf(history)).toMatchObject([{ channel: "c", fault: "worker killed" }])
  expect(gapsOf(history)[0]!.nanoseconds / 1e9).toBeCloseTo(3, 1)
})

test("P8: a channel that was silent for too long is found, and one that stays silent", () => {
  expect(takeOver(killed(5_500).history)).toHaveLength(1)
  const story = new Story()
    .send("1")
    .fault("worker killed", "worker", () => {})
    .wait(6_000)
  expect(takeOver(story.counters({}).history)).toHaveLength(1)
})

test("P8: a break in between is not counted", () => {
  const story = new Story()
    .send("1")
    .fault("worker killed", "worker", () => {})
    .wait(2_000)
    .fault("postgres killed", "dependency", story => story.wait(5_000))
    .send("2")
  expect(takeOver(story.history)).toEqual([])
})
