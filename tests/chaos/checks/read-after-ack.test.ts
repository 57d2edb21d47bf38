import { expect, test } from "vitest"
import { getting, sending, Story } from "./history-of.ts"
import { readAfterAck } from "./read-after-ack.ts"

const shown = (id: string, content = `m${id}`) => ({ messages: [{ id, author: "ada", content }] })
const missing = { type: "fail", status: 404 } as const
const edit = { do: "edit", channel: "c", message: "1", body: "new" } as const

test("P4: a message is shown once it is acknowledged, an edit once it is, and a failed read proves nothing", () => {
  const story = new Story().send("1").done(getting("1"), shown("1"))
  story.done(getting("1"), { type: "maybe", status: 503 })
  const editing = story.invoke(edit)
  story.done(getting("1"), shown("1")).done(getting("1"), shown("1", "new"))
  story.end(editing, "ok", 200).done(getting("1"), shown("1", "new"))
  expect(readAfterAck(story.history)).toEqual([])
})

test("P4: a read before the acknowledgement, and after a deletion, may find nothing", () => {
  const story = new Story()
  const op = story.invoke(sending("m1"))
  story.done(getting("1"), missing).end(op, "ok", 200, shown("1").messages)
  story.done({ do: "delete", channel: "c", message: "1" }).done(getting("1"), missing)
  expect(readAfterAck(story.history)).toEqual([])
})

test("P4: a reply before the commit is found by the read that follows", () => {
  expect(readAfterAck(new Story().send("1").done(getting("1"), missing).history)).toHaveLength(1)
})

test("P4: an old content after an acknowledged edit is found", () => {
  const story = new Story().send("1").done(edit).done(getting("1"), shown("1"))
  expect(readAfterAck(story.history)).toHaveLength(1)
})
