import { expect, test } from "vitest"
import type { MessageState } from "../domain/messages/messages.ts"
import { HotPages } from "./hot-pages.ts"

const messageOf = (more: Partial<MessageState> = {}): MessageState => ({
  id: "1",
  channel_id: "1",
  server_id: "2",
  author_id: "3",
  author_username: "ada",
  author_bot: false,
  author_badges: [],
  content: "words",
  edited_at: null,
  reply_to_id: null,
  nonce: null,
  ...more,
})
const known = (...messages: MessageState[]) => ({ version: "a 1", messages })

test("newest pages are kept, by channel and length; at a place none is, whatever it is called", () => {
  const pages = new HotPages()
  pages.keep("1", { limit: 50 }, known(messageOf()))
  expect(pages.find("1", { limit: 50 })).toMatchObject({ version: "a 1" })
  expect([pages.find("1", { limit: 49 }), pages.find("2", { limit: 50 })]).toEqual([undefined, undefined])
  const before = pages.bytes
  for (let i = 0; i < 1_000; i++)
    for (const place of [{ around: `${i}` }, { before: `${i}` }, { after: `${i}` }]) {
      pages.keep("1", { limit: 50, ...place }, known(messageOf()))
      expect(pages.find("1", { limit: 50, ...place })).toBeUndefined()
    }
  expect(pages.bytes).toBe(before)
})

test("everything on a message counts, and the pages used longest ago go first", () => {
  const embeds = [{ x: Array.from({ length: 1_000 }, () => ({})), y: "x".repeat(10_000) }]
  const pages = new HotPages(1_000_000)
  for (let channel = 0; channel < 100; channel++) {
    pages.keep(`${channel}`, { limit: 50 }, known(messageOf({ embeds: structuredClone(embeds) })))
    pages.find("0", { limit: 50 })
    expect(pages.bytes).toBeLessThanOrEqual(1_000_000)
  }
  const kept = Array.from({ length: 100 }, (_, i) => i).filter(i => pages.find(`${i}`, { limit: 50 }))
  // Each takes 100 bytes for every object, and text.
  expect(kept.length).toBeLessThan(10)
  expect([kept[0], kept.at(-1)]).toEqual([0, 99])
})

test("pages without messages are bounded by their number", () => {
  const pages = new HotPages(undefined, 10)
  for (let channel = 0; channel < 100; channel++) pages.keep(`${channel}`, { limit: 50 }, known())
  const kept = Array.from({ length: 100 }, (_, i) => i).filter(i => pages.find(`${i}`, { limit: 50 }))
  expect(kept).toEqual(Array.from({ length: 10 }, (_, i) => 90 + i))
})

test("answers count, too, and of a page the latest few are kept", () => {
  const pages = new HotPages(100_000)
  const page = pages.keep("1", { limit: 50 }, known(messageOf()))!
  const before = pages.bytes
  const text = "x".repeat(10_000)
  const body = (json: string) => ({ json, next: null })
  for (let i = 0; i < 6; i++) expect(page.keepBody([`${i}`], body(text)).json.toString()).toBe(text)
  expect(pages.bytes).toBe(before + 4 * text.length)
  const found = Array.from({ length: 6 }, (_, i) => page.bodyWith([`${i}`]) !== undefined)
  expect(found).toEqual([false, false, true, true, true, true])

  // A page that was dropped weighs nothing, even if it is still in use.
  page.keepBody(["large"], body("x".repeat(100_000)))
  expect([pages.find("1", { limit: 50 }), pages.bytes]).toEqual([undefined, 0])
  page.keepBody(["late"], body(text))
  expect(pages.bytes).toBe(0)
})
