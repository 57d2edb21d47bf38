import type { IntervalHistogram, monitorEventLoopDelay } from "node:perf_hooks"
import { expect, test } from "vitest"
import { LoopDelay } from "./loop-delay.ts"

/** Monitors that say what the test does, and how often each is looked at. */
function scene() {
  const monitors = new Map<number, { isOn: boolean; count: number; max: number }>()
  const monitorLoop = (({ resolution = 10 } = {}) => {
    const monitor = { isOn: false, count: 0, max: 0 }
    monitors.set(resolution, monitor)
    const reset = () => Object.assign(monitor, { count: 0, max: 0 })
    return Object.assign(monitor, {
      // As Node does it: what was seen before is forgotten.
      enable: () => Object.assign(reset(), { isOn: true }),
      disable: () => Object.assign(monitor, { isOn: false }),
      reset,
      percentile: () => monitor.max,
    }) as unknown as IntervalHistogram
  }) as typeof monitorEventLoopDelay
  let look = () => {}
  let share = 0
  let looks = 0
  const clock = {
    every(_: number, action: () => void) {
      look = action
      looks++
      return { stop: () => void looks-- }
    },
  }
  const delay = new LoopDelay({
    resolutionMs: 50,
    idleResolutionMs: 250,
    monitorLoop,
    clock,
    workingShare: () => share,
  })
  return {
    delay,
    /** One look of the monitor that is on, which finds the loop so late. */
    seen(milliseconds: number) {
      for (const [resolution, monitor] of monitors)
        if (monitor.isOn) Object.assign(monitor, { count: 1, max: (milliseconds + resolution) * 1e6 })
    },
    work(now: number) {
      share = now
      look()
    },
    on: () => [...monitors].filter(([, { isOn }]) => isOn).map(([resolution]) => resolution),
    looks: () => looks,
  }
}

test("an event loop that has something to do is looked at more often, and no delay is lost in between", () => {
  const { delay, seen, work, on, looks } = scene()
  expect(on()).toEqual([250])
  seen(400)
  work(0.5)
  expect(on()).toEqual([50])
  seen(300)
  expect(delay.percentile(99)).toBeCloseTo(0.3)
  work(0.01)
  expect(on()).toEqual([250])
  work(0.5)
  work(0.01)
  expect(delay.takeMax()).toBeCloseTo(0.4)
  expect(delay.takeMax()).toBe(0)
  delay.stop()
  expect(on()).toEqual([])
  expect(looks()).toBe(0)
})
