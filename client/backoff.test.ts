import { expect, test } from "vitest"
import { defaultBackoff, waitMs } from "./backoff.ts"

const whole = { firstMs: 1_000, maxMs: 30_000, jitter: 0 }

test("the wait doubles up to its ceiling", () => {
  expect([0, 1, 2, 3, 4, 5, 6, 5_000].map(attempt => waitMs(whole, attempt))).toEqual([
    1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000,
  ])
})

test("CLIENT4: full jitter spreads the wait from nothing to the ceiling", () => {
  expect(waitMs(defaultBackoff, 3, () => 0)).toBe(0)
  expect(waitMs(defaultBackoff, 3, () => 0.5)).toBe(4_000)
  expect(waitMs(defaultBackoff, 3, () => 0.999_999)).toBeCloseTo(8_000, 1)
})

test("half jitter keeps half the wait", () => {
  expect(waitMs({ ...whole, jitter: 0.5 }, 0, () => 0)).toBe(500)
  expect(waitMs({ ...whole, jitter: 0.5 }, 0, () => 1)).toBe(1_000)
})
