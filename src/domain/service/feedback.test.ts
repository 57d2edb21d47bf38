import { expect, test } from "vitest"
import { feedbackWait, feedbackWithin, withFeedback, type FeedbackTimes } from "./feedback.ts"

const sent = (...at: number[]): FeedbackTimes =>
  at.toSorted((a, b) => a - b).reduce<FeedbackTimes>((times, now) => withFeedback(times, now), [])

test("five texts in any hour, twenty in any day", () => {
  const now = 1_000_000
  expect(feedbackWait([], now)).toBe(0)
  const four = sent(now - 3_599, now - 3_000, now - 20, now)
  expect([feedbackWait(four, now), feedbackWithin(four, now)]).toEqual([0, { hour: 4, day: 4 }])
  const five = withFeedback(four, now)
  expect([feedbackWait(five, now), feedbackWithin(five, now)]).toEqual([1, { hour: 5, day: 5 }])
  expect([feedbackWait(five, now + 1), feedbackWithin(five, now + 1)]).toEqual([0, { hour: 4, day: 5 }])

  const twenty = sent(...Array.from({ length: 20 }, (_, i) => now - 4_000 * i))
  expect(feedbackWithin(twenty, now)).toEqual({ hour: 1, day: 20 })
  expect(feedbackWait(twenty, now)).toBe(86_400 - 76_000)
  expect(feedbackWait(twenty, now + 10_400)).toBe(0)
  // What no limit looks at any longer is not kept.
  expect(withFeedback(twenty, now)).toHaveLength(20)
})
