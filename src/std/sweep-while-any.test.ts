import { expect, test } from "vitest"
import { SweepWhileAny } from "./sweep-while-any.ts"

test("it looks while anything is left, and again once there is something new", () => {
  const timers = new Set<() => void>()
  const clock = {
    every(_: number, action: () => void) {
      timers.add(action)
      return { stop: () => void timers.delete(action) }
    },
  }
  const tick = () => timers.forEach(action => action())
  let left = 0
  let sweeps = 0
  const sweeper = new SweepWhileAny(clock, 100, () => (sweeps++, left > 0))
  expect(timers.size).toBe(0)

  for (const round of [1, 2]) {
    left = 3
    sweeper.begin()
    sweeper.begin()
    expect(timers.size).toBe(1)
    for (; left > 0; left--) tick()
    expect(timers.size).toBe(1)
    tick()
    expect(timers.size).toBe(0)
    expect(sweeps).toBe(4 * round)
  }
  left = 1
  sweeper.begin()
  sweeper.stop()
  expect(timers.size).toBe(0)
})
