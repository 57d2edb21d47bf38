import { expect, test } from "vitest"
import { LoopPeriod, watchLoop } from "./loop-delay.ts"
import { until } from "../../tests/kit/until.ts"

test("a blocked event loop is seen in its period, and in no later one", async () => {
  const period = new LoopPeriod()
  expect(period.percentile(99)).toBe(0)
  const delays: number[] = []
  const watch = watchLoop(10, seconds => {
    delays.push(seconds)
    period.observe(seconds)
  })
  await until("it looks", () => delays.length > 2)
  const block = (forMs: number) => {
    for (const end = performance.now() + forMs; performance.now() < end;);
  }
  block(300)
  await until("it is seen", () => delays.some(seconds => seconds >= 0.28))
  expect(period.percentile(100)).toBeGreaterThanOrEqual(0.28 * 0.99)
  expect(Math.abs(period.percentile(100) / Math.max(...delays) - 1)).toBeLessThan(0.02)
  period.end()
  const seen = delays.length
  await until("it looks again", () => delays.length > seen + 2)
  expect(Math.abs(period.percentile(100) - Math.max(...delays.slice(seen)))).toBeLessThan(0.02)
  watch.stop()
  const last = delays.length
  block(50)
  await new Promise(resolve => setImmediate(resolve))
  expect(delays).toHaveLength(last)
})

test("a process that does next to nothing is looked at twice a second, when it is awake anyway, and as before once it does more", () => {
  let [now, active] = [10_020, 0]
  let next: { at: number; action: () => void } | undefined
  const late: number[] = []
  watchLoop(100, seconds => late.push(Math.round(seconds * 1e3)), {
    now: () => now,
    active: () => active,
    wait(ms, action) {
      next = { at: now + ms, action }
      return { stop() {} }
    },
  })
  /** When it looks in so many milliseconds of which it is busy for a share. */
  const looks = (forMs: number, share: number, lateMs = 0) => {
    const at: number[] = []
    for (const end = now + forMs; next!.at + lateMs <= end;) {
      active += share * (next!.at + lateMs - now)
      now = next!.at + lateMs
      at.push(now)
      next!.action()
    }
    return at
  }
  expect(looks(1_000, 0.5)).toHaveLength(10)
  // It has to have been at rest for two seconds.
  expect(looks(2_000, 0.01)).toHaveLength(20)
  expect(looks(3_000, 0.01)).toEqual([13_500, 14_000, 14_500, 15_000, 15_500, 16_000].filter(at => at <= now))
  expect(Math.max(...late)).toBe(0)
  // The look that finds it late, and those that follow, are a tenth of a second apart again.
  looks(700, 0.5, 120)
  expect(late.at(-1)).toBe(120)
  expect(looks(1_000, 0.5).length).toBeGreaterThanOrEqual(9)
  // Many heartbeats that come together once a second are not much.
  for (let second = 0; second < 4; second++) {
    looks(100, 0.1)
    looks(900, 0)
  }
  expect(looks(2_000, 0.005)).toHaveLength(4)
})
