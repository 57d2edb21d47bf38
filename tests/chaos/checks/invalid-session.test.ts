import { expect, test } from "vitest"
import { invalidSession } from "./invalid-session.ts"
import { Story } from "./history-of.ts"

const lossy = () => new Story().ready().send("1").hear("1").send("2").say("invalid").ready("eve/2")
const page = (...ids: string[]) =>
  [
    { do: "page", channel: "c", after: "1", reader: "eve's" },
    { messages: ids.map(id => ({ id, author: "ada", content: `m${id}` })) },
  ] as const

test("P6: after INVALID_SESSION, READY and the history make up for what was lost", () => {
  const story = lossy()
    .done(...page("2"))
    .send("3")
    .hear("3", { session: "eve/2" })
    .wait(1_100)
    .say("end", "eve/2")
  expect(invalidSession(story.history)).toEqual([])
})

test("P6: a session that goes on after INVALID_SESSION is found", () => {
  expect(invalidSession(lossy().hear("2").history)).toHaveLength(1)
  expect(invalidSession(lossy().resumed().history)).toHaveLength(1)
})

test("P6: what neither the history nor an event told is found", () => {
  expect(
    invalidSession(
      lossy()
        .done(...page())
        .wait(1_100)
        .say("end", "eve/2").history,
    ),
  ).toHaveLength(1)
})
