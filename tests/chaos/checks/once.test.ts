import { expect, test } from "vitest"
import { Story } from "./history-of.ts"
import { once } from "./once.ts"

const clean = () => new Story().ready().send("1").hear("1").send("2", { type: "maybe", status: 0 }).hear("2")

test("P2: a retry with the same nonce, and one event for each of two sessions", () => {
  const story = clean().send("2", { stored: false }).ready("eve/2").hear("2", { session: "eve/2" })
  expect(once(story.history)).toEqual([])
})

test("P2: a body that is stored twice is found", () => {
  expect(once(clean().send("3", { body: "m2" }).history)).toHaveLength(1)
})

test("P2: a row that is read twice is found", () => {
  expect(once(clean().store({ id: "2", author: "ada", content: null }).history)).toHaveLength(1)
})

test("P2: an event that comes twice to one session is found", () => {
  expect(once(clean().resumed().hear("2").history)).toHaveLength(1)
})
