import { monitorEventLoopDelay } from "node:perf_hooks"
import { setTimeout as sleep } from "node:timers/promises"
import { expect, test } from "vitest"
import { until } from "../../tests/kit/until.ts"
import { LoopDelay } from "./loop-delay.ts"

test("a blocked event loop is seen once, in the period in which it was", async () => {
  const delay = new LoopDelay(monitorEventLoopDelay, 10)
  await sleep(50)
  delay.takeMax()
  let seen = 0
  await until("it is seen", async () => {
    for (const end = performance.now() + 300; performance.now() < end;);
    await sleep(30)
    seen = delay.takeMax()
    return seen >= 0.25
  })
  await until("it is over", async () => {
    await sleep(30)
    return delay.takeMax() < seen
  })
  expect(seen).toBeLessThan(60)
  delay.stop()
})
