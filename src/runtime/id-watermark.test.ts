import { expect, test } from "vitest"
import type { Clock } from "../std/clock.ts"
import { IdWatermark } from "./id-watermark.ts"

const began = 1_750_000_000_000

test("MARK1: a clock that was ahead for a moment catches up, and nothing is made twice meanwhile", () => {
  let time = 0
  let skew = 0
  const watermark = new IdWatermark({ now: () => began + time + skew, monotonic: () => time } as Clock)
  const ahead = () => watermark.moment() - began - time
  const pass = (ms: number) => {
    for (const end = time + ms; time < end; time += 500) {
      const { servers } = watermark.report([])
      expect(watermark.moment()).toBeGreaterThan(servers)
    }
  }
  pass(1_000)
  expect(ahead()).toBe(0)
  skew = 60_000
  pass(500)
  skew = 0
  expect(ahead()).toBeGreaterThan(59_000)
  pass(60_000)
  expect(ahead()).toBeGreaterThan(29_000)
  pass(61_000)
  expect(ahead()).toBe(0)
})
