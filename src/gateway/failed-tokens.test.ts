import { expect, test } from "vitest"
import { failedTokenLimit } from "../contract/limits.ts"
import type { Clock } from "../domain/clock.ts"
import { FailedTokens } from "./failed-tokens.ts"
import { FrameRefused } from "./frames.ts"

function counting(limited = true) {
  let now = 0
  const failed = new FailedTokens({ clock: { monotonic: () => now } as Clock, limited })
  /** How many of so many are let pass as mere failures. */
  const passed = (address: string, count: number) => {
    let passed = 0
    for (let i = 0; i < count; i++)
      try {
        failed.note(address)
        passed++
      } catch (error) {
        expect(error).toBeInstanceOf(FrameRefused)
        expect((error as FrameRefused).close).toBe("rate_limited")
      }
    return passed
  }
  return { passed, advance: (milliseconds: number) => (now += milliseconds) }
}
const most = failedTokenLimit.requests

test("an address has its failures, and after a minute new ones", () => {
  const { passed, advance } = counting()
  expect(passed("192.0.2.1", most + 50)).toBe(most)
  expect(passed("192.0.2.2", 5)).toBe(5)
  advance(59_999)
  expect(passed("192.0.2.1", 1)).toBe(0)
  advance(1)
  expect(passed("192.0.2.1", most + 1)).toBe(most)
})

test("IPv6 counts by /64, and IPv4 written as IPv6 as what it is", () => {
  const { passed } = counting()
  expect(passed("2001:db8:1:2::1", most)).toBe(most)
  expect(passed("2001:db8:1:2:ffff::9", 1)).toBe(0)
  expect(passed("2001:db8:1:3::1", 1)).toBe(1)
  expect(passed("192.0.2.1", most)).toBe(most)
  expect(passed("::ffff:192.0.2.1", 1)).toBe(0)
})

test("many addresses take bounded memory: the oldest windows make room", () => {
  const { passed } = counting()
  expect(passed("192.0.2.1", most + 1)).toBe(most)
  for (let i = 0; i < 10_000; i++) passed(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`, 1)
  expect(passed("10.0.39.15", most)).toBe(most - 1)
  expect(passed("192.0.2.1", 1)).toBe(1)
})

test("without limits nothing is counted", () => {
  expect(counting(false).passed("192.0.2.1", 1_000)).toBe(1_000)
})
