import { expect, test } from "vitest"
import { asyncapiDocument } from "../src/apidocs/asyncapi.ts"
import { clean, gistOf } from "./gist.ts"

const { components } = asyncapiDocument({ title: "Starling", version: "a.1.0-49" })
const events = Object.entries(components.messages)
  .filter(([key]) => key.startsWith("event."))
  .map(([, message]) => [message.name, (message.examples[0]!.payload as { d: unknown }).d] as const)

test.each(events)("%s has a gist of one line", (name, d) => {
  const line = gistOf(name, d)
  expect(line).not.toMatch(/undefined|\[object|\n/)
  expect(line.length > 0).toBe(JSON.stringify(d) !== "{}")
  expect(Array.from(new Intl.Segmenter().segment(gistOf(name, d, 20))).length).toBeLessThanOrEqual(20)
})

test("what a terminal would act on is shown, not done", () => {
  const nasty = "\x1b[2Jred\u009b31m\r\nback\u202espaces\u2028"
  const line = gistOf("MESSAGE_CREATE", { channel_id: "1", author_username: "ada", content: nasty })
  expect(line).toBe("in 1 ada: \\u{1b}[2Jred\\u{9b}31m\\u{d}\\u{a}back\\u{202e}spaces\\u{2028}")
  expect(clean("a\nb", "\n")).toBe("a\nb")
  expect(gistOf("SOMETHING_NEW", { a: 1, b: null, c: { d: nasty } })).not.toMatch(/\p{Cc}/u)
})
