import { expect, test } from "vitest"
import { FrameLimits, IdentifyLimit, nothingSent } from "./frame-limits.ts"

const limits = new FrameLimits({ allPerMinute: 5, perMinute: 3, signalsPerMinute: 2, maxBytes: 2_048 })

test("frames and signals are counted apart, and each minute anew", () => {
  const sent = nothingSent(1_000)
  const frames = () => [1, 2, 3, 4].map(() => limits.frame(sent, 60_999))
  expect(frames()).toEqual([false, false, false, true])
  expect([1, 2, 3].map(() => limits.signal(sent, 60_999))).toEqual([false, false, true])
  expect(limits.frame(sent, 61_000)).toBe(false)
  expect(limits.signal(sent, 120_999)).toBe(false)
  expect(limits.frame(sent, 121_000)).toBe(false)
  expect(sent).toEqual({ since: 121_000, all: 0, frames: 1, signals: 0, inflatedBytes: 0 })
})

test("frames of every kind have a bound of their own, each minute anew", () => {
  const sent = nothingSent(0)
  const verdicts = (now: number) => Array.from({ length: 6 }, () => limits.any(sent, now))
  expect(verdicts(59_999)).toEqual([false, false, false, false, false, true])
  expect(limits.frame(sent, 59_999)).toBe(false)
  expect(verdicts(60_000)).toEqual([false, false, false, false, false, true])
})

test("compressed frames may hold as much as a minute's frames that are not, and none counts for less than 1,024 bytes", () => {
  const sent = nothingSent(0)
  expect(limits.inflated(sent, 6_144, 1)).toBe(false)
  expect(limits.inflated(sent, 1, 2)).toBe(true)
  const small = nothingSent(0)
  const verdicts = Array.from({ length: 7 }, () => limits.inflated(small, 8, 3))
  expect(verdicts).toEqual([false, false, false, false, false, false, true])
  expect(limits.inflated(small, 8, 60_000)).toBe(false)
  // Nor do they take from what other frames may be.
  expect(small.frames).toBe(0)
})

test("a token identifies five times in five seconds, whatever the others do", () => {
  const identify = new IdentifyLimit()
  const times = (token: string, now: number) => Array.from({ length: 6 }, () => identify.isTooMuch(token, now))
  const five = [false, false, false, false, false, true]
  expect(times("a", 100)).toEqual(five)
  expect(times("b", 5_099)).toEqual(five)
  expect(identify.isTooMuch("a", 5_099)).toBe(true)
  expect(times("a", 5_100)).toEqual(five)
})

test("the five seconds slide: no moment lets twice as many through", () => {
  const identify = new IdentifyLimit()
  const at = (...times: number[]) => times.map(time => identify.isTooMuch("a", time))
  expect(at(0, 4_900, 4_910, 4_920, 4_930)).not.toContain(true)
  expect(at(4_999, 5_000, 5_001, 9_899)).toEqual([true, false, true, true])
  expect(at(9_900, 9_910, 9_915)).toEqual([false, false, true])
})

test("many tokens take bounded memory, and those that are counted stay so", () => {
  const identify = new IdentifyLimit()
  for (let i = 0; i < 5; i++) identify.isTooMuch("mine", 0)
  for (let i = 0; i < 50_000; i++) identify.isTooMuch(`other ${i}`, 0)
  expect(identify.isTooMuch("mine", 0)).toBe(true)
  expect(Array.from({ length: 9 }, () => identify.isTooMuch("one too many", 0))).not.toContain(true)
})
