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
