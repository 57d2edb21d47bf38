import { expect, test } from "vitest"
import { backoffMs } from "./backoff.ts"

test("a wait doubles up to its maximum, however often something was tried", () => {
  expect([0, 1, 2, 3, 4].map(attempt => backoffMs(attempt, 50, 500))).toEqual([50, 100, 200, 400, 500])
  expect(backoffMs(5_000, 50, 500)).toBe(500)
})
