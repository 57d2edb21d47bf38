import { expect, test } from "vitest"
import {
  chosen,
  effectiveLevel,
  isNoChoice,
  isNotified,
  noChoice,
  type NotificationChoice,
} from "./notification-levels.ts"

const now = 1_700_000_000
const level = (name: NotificationChoice["level"]): NotificationChoice => ({ ...noChoice, level: name })
const muted = (muted_until: number | null): NotificationChoice => ({ ...noChoice, muted: true, muted_until })

test("the nearest level holds: the channel's, the user's of the server, the server's own", () => {
  const of = (server: NotificationChoice, channel: NotificationChoice | null, byDefault: number) =>
    effectiveLevel({ server, channel }, byDefault, now).level
  expect(of(noChoice, null, 0)).toBe("all")
  expect(of(noChoice, noChoice, 1)).toBe("mentions")
  expect(of(level("nothing"), null, 0)).toBe("nothing")
  expect(of(level("nothing"), noChoice, 0)).toBe("nothing")
  expect(of(level("nothing"), level("all"), 1)).toBe("all")
  expect(of(noChoice, level("mentions"), 0)).toBe("mentions")
})

test("a mute of the server or of the channel holds until its end", () => {
  const of = (server: NotificationChoice, channel: NotificationChoice | null) =>
    effectiveLevel({ server, channel }, 0, now).muted
  expect(of(noChoice, noChoice)).toBe(false)
  for (const held of [muted(null), muted(now + 1)]) {
    expect(of(held, null)).toBe(true)
    expect(of(held, level("all"))).toBe(true)
    expect(of(noChoice, held)).toBe(true)
  }
  for (const over of [muted(now), muted(now - 1)]) expect(of(over, over)).toBe(false)
})

test("who is told of what", () => {
  const told = (name: "all" | "mentions" | "nothing", is: boolean) =>
    [true, false].map(isMention => isNotified({ level: name, muted: is }, isMention))
  expect(told("all", false)).toEqual([true, true])
  expect(told("mentions", false)).toEqual([true, false])
  expect(told("nothing", false)).toEqual([false, false])
  for (const name of ["all", "mentions", "nothing"] as const) expect(told(name, true)).toEqual([false, false])
})

test("what is left out of a choice stays; a mute without an end is for ever, and one that is over is none", () => {
  expect(chosen(noChoice, {}, now)).toEqual(noChoice)
  expect(chosen(level("all"), { muted: true }, now)).toEqual({ level: "all", muted: true, muted_until: null })
  expect(chosen(noChoice, { muted_until: now + 60 }, now)).toEqual(muted(now + 60))
  expect(chosen(muted(now + 60), { muted_until: 0 }, now)).toEqual(muted(null))
  expect(chosen(muted(now + 60), { muted: true }, now)).toEqual(muted(null))
  expect(chosen(muted(now + 60), { level: "nothing" }, now)).toEqual({ ...muted(now + 60), level: "nothing" })
  expect(chosen(muted(now - 60), { level: "nothing" }, now)).toEqual(level("nothing"))
  expect(chosen(muted(null), { muted: false, muted_until: now + 60 }, now)).toEqual(noChoice)
  expect(chosen(noChoice, { muted: true, muted_until: now }, now)).toEqual(noChoice)
  const undone = chosen({ ...muted(null), level: "all" }, { level: "default", muted: false }, now)
  expect([undone, isNoChoice(undone)]).toEqual([noChoice, true])
  expect([level("all"), muted(null)].some(isNoChoice)).toBe(false)
})
