import { expect, test } from "vitest"
import { takeOver } from "./checks/take-over.ts"
import { Story } from "./checks/history-of.ts"
import { slownessOf } from "./machine.ts"

/**
 * A channel that is silent for so many milliseconds after a kill, while each second of work waited
 * so long for a core.
 */
function killed(silence: number, waited: number) {
  const story = new Story().add({ type: "machine", ran: 0, waited: 0 }).send("1")
  story.fault("worker killed", "worker", () => {}).wait(silence)
  return story.send("2").add({ type: "machine", ran: 1e9, waited: waited * 1e9 }).history
}

test("slowness is what a process waited for a core beside what it ran", () => {
  const history = killed(1_000, 3)
  expect(slownessOf(history)(0, history.at(-1)!.at)).toBe(4)
  expect(slownessOf([])(0, 1)).toBe(1)
})

test("P8: a promised time is stretched where the machine had no core for the run, and only there", () => {
  expect(takeOver(killed(5_500, 0))).toHaveLength(1)
  expect(takeOver(killed(5_500, 2))).toHaveLength(1)
  expect(takeOver(killed(5_500, 3))).toEqual([])
  expect(takeOver(killed(7_500, 3))).toHaveLength(1)
})
