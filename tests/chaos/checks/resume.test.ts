import { expect, test } from "vitest"
import { Story } from "./history-of.ts"
import { resume } from "./resume.ts"

/** Live, a loss, a resume that replays, and live again to the end. */
const clean = () =>
  new Story()
    .send("1")
    .ready()
    .send("2")
    .hear("2")
    .send("3")
    .send("4")
    .resumed()
    .hear("3")
    .hear("4")
    .send("5")
    .hear("5")

test("P5: live and replayed are what happened, and before READY nothing is owed", () => {
  expect(resume(clean().wait(1_100).say("end").history)).toEqual([])
})

test("P5: what came after the last event of a session that ended is not owed", () => {
  expect(resume(clean().send("6").say("invalid").history)).toEqual([])
})

test("P5: what was committed late, without an answer, is not owed after the last event", () => {
  expect(resume(clean().wait(1_100).send("6", { type: "maybe", status: 0 }).say("end").history)).toEqual([])
})

test("P5: one event that was dropped is found", () => {
  const story = new Story().ready().send("1").hear("1").send("2").send("3").hear("3")
  expect(resume(story.history).map(({ what }) => what)).toEqual(["session eve/1 of eve's missed m2 (2) in c"])
})

test("P5: a hole that a resume left is found, at its end and at its beginning", () => {
  expect(resume(clean().send("6").send("7").resumed().hear("7").wait(1_100).say("end").history)).toHaveLength(1)
  expect(resume(clean().send("6").resumed().wait(1_100).say("end").history)).toHaveLength(1)
  expect(
    resume(new Story().ready().send("1").send("2").resumed().hear("2").wait(1_100).say("end").history),
  ).toHaveLength(1)
})

test("P5: an event that was published before a commit that never came is found", () => {
  const story = clean().send("6", { type: "maybe", status: 503, stored: false }).hear("6").say("end")
  expect(resume(story.history).map(({ what }) => what)).toEqual([
    "session eve/1 of eve's was shown 6 in c, which is not stored",
  ])
})

test("P5: an edit and a deletion that were not told are found", () => {
  const edit = { do: "edit", channel: "c", message: "5", body: "new" } as const
  const told = clean().done(edit).hear("5", { name: "MESSAGE_UPDATE", content: "new" })
  expect(resume(told.wait(1_100).say("end").history)).toEqual([])
  expect(resume(clean().done(edit).wait(1_100).say("end").history)).toHaveLength(1)
  expect(
    resume(clean().done({ do: "delete", channel: "c", message: "5" }).wait(1_100).say("end").history),
  ).toHaveLength(1)
})
