import { expect, test } from "vitest"
import { hostMs } from "./system-clock.ts"

test("all processes of a machine count from the same moment: that of its monotonic clock", () => {
  const machine = () => Number(process.hrtime.bigint() / 1_000n) / 1_000
  const before = machine()
  const now = hostMs()
  const after = machine()
  // A millisecond for what rounding takes.
  expect(now).toBeGreaterThanOrEqual(before - 1)
  expect(now).toBeLessThanOrEqual(after + 1)
})
