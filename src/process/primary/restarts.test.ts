import { expect, test } from "vitest"
import { afterDeath } from "./restarts.ts"

const restart = { firstMs: 100, factor: 2, maxMs: 5_000, maxOnceReadyMs: 1_000, forgiveAfterMs: 10_000 }

/** The waits after so many deaths in a row, each after the same life. */
function waits(count: number, lived: number | undefined): number[] {
  let before = 0
  return Array.from({ length: count }, () => {
    const { deaths, wait } = afterDeath({ lived, before }, restart)
    before = deaths
    return wait
  })
}

test("what never gets ready is started ever later", () => {
  expect(waits(8, undefined)).toEqual([100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000])
})

test("what served is back within a second, however often it is killed", () => {
  expect(waits(7, 500)).toEqual([100, 200, 400, 800, 1_000, 1_000, 1_000])
})

test("a good while is forgiven", () => {
  expect(waits(3, 10_000)).toEqual([100, 100, 100])
  expect(afterDeath({ lived: 10_000, before: 6 }, restart)).toEqual({ deaths: 1, wait: 100 })
})
