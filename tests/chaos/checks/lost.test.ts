import { expect, test } from "vitest"
import { Story } from "./history-of.ts"
import { lost } from "./lost.ts"

const clean = () =>
  new Story()
    .send("1")
    .send("2", { type: "maybe", status: 503, stored: false })
    .send("3", { type: "maybe", status: 0 })
    .send("4", { stored: false })
    .done({ do: "delete", channel: "c", message: "4" })
    .send("5", { stored: false })
    .done({ do: "edit", channel: "c", message: "5", body: "new" })
    .store({ id: "5", author: "ada", content: "new" })

test("P1: what is stored, deleted or was never acknowledged is not lost", () => {
  expect(lost(clean().history)).toEqual([])
})

test("P1: a reply before a commit that never came is found", () => {
  const [finding, ...more] = lost(clean().send("6", { stored: false }).history)
  expect(finding?.what).toBe("m6 (6) was acknowledged and is lost")
  expect(more).toEqual([])
})

test("P1: a deletion that did not last is found, and an edit", () => {
  const undeleted = clean().send("6").done({ do: "delete", channel: "c", message: "6" })
  expect(lost(undeleted.history)).toHaveLength(1)
  const unedited = clean().send("7").done({ do: "edit", channel: "c", message: "7", body: "newer" })
  expect(lost(unedited.history)).toHaveLength(1)
})
