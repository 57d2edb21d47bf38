import { expect, test } from "vitest"
import { sending, Story } from "./history-of.ts"
import { order } from "./order.ts"

const clean = () => new Story().ready().send("9").hear("9").send("10").hear("10").send("11").hear("11")

test("P3: one order, and two sends at the same time in either", () => {
  const story = clean()
  const first = story.invoke(sending("a"))
  const second = story.invoke(sending("b"))
  story.end(first, "ok", 200, [{ id: "13", author: "ada", content: "a" }])
  story.end(second, "ok", 200, [{ id: "12", author: "ada", content: "b" }])
  expect(order(story.history)).toEqual([])
})

test("P3: two events that changed places are found", () => {
  expect(order(clean().send("12").send("13").hear("13").hear("12").history)).toHaveLength(1)
})

test("P3: a history whose ids fall is found", () => {
  expect(order(clean().store({ id: "8", author: "ada", content: "late" }).history)).toHaveLength(1)
})

test("P3: an `s` that does not rise is found", () => {
  expect(order(clean().hear("12", { s: 3 }).history)).toHaveLength(1)
})

test("P3: an owner that ignores its epoch is found: its message is ordered before what had been acknowledged", () => {
  const story = clean().send("20").send("15", { stored: false })
  expect(order(story.history).map(({ what }) => what)).toEqual(["m15 (15) began after 20 was acknowledged"])
})
