import fc from "fast-check"
import { expect, test } from "vitest"
import type { MessageState } from "./messages.ts"
import {
  dropFromTail,
  mergeIntoTail,
  newTail,
  pageOfTail,
  putInTail,
  renameInTail,
  tailLength,
  type PagePlace,
} from "./tails.ts"

const messageOf = (id: number, content = ""): MessageState => ({
  id: String(id),
  channel_id: "1",
  server_id: "2",
  author_id: String(id % 3),
  author_username: "ada",
  author_badges: [],
  content,
  edited_at: null,
  reply_to_id: null,
  nonce: null,
})

/** As the database answers, of all messages by id. */
function literalPage(all: ReadonlyMap<number, MessageState>, { limit, before, after, around }: PagePlace) {
  const ids = [...all.keys()].toSorted((a, b) => a - b)
  const down = (from: (id: number) => boolean, most: number) =>
    ids
      .filter(from)
      .slice(-most || ids.length)
      .reverse()
      .slice(0, most)
  if (around !== undefined) {
    const newer = Math.floor((limit - 1) / 2)
    const above = ids
      .filter(id => id > Number(around))
      .slice(0, newer)
      .reverse()
    return [...above, ...down(id => id <= Number(around), limit - newer)]
  }
  if (before === undefined && after !== undefined) return ids.filter(id => id > Number(after)).slice(0, limit)
  return down(id => before === undefined || id < Number(before), limit)
}

const place = fc.record(
  { limit: fc.integer({ min: 1, max: 100 }), before: fc.nat(420), after: fc.nat(420), around: fc.nat(420) },
  { requiredKeys: ["limit"] },
)
const act = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("send" as const), count: fc.integer({ min: 1, max: 30 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom("edit" as const, "delete" as const),
      which: fc.nat(400),
      count: fc.integer({ min: 1, max: 20 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("read" as const), place }) },
)

test("a page from a tail is the page of all messages, or none; whatever was sent, changed and deleted", () => {
  let [hot, cold] = [0, 0]
  fc.assert(
    fc.property(fc.nat(250), fc.array(act, { maxLength: 40 }), (stored, acts) => {
      const all = new Map(Array.from({ length: stored }, (_, i) => [i + 1, messageOf(i + 1)]))
      let last = stored
      let edits = 0
      const load = () =>
        newTail([...all.values()].toSorted((a, b) => Number(b.id) - Number(a.id)).slice(0, tailLength), 0)
      let tail = load()
      for (const one of acts)
        if (one.do === "send")
          for (let i = 0; i < one.count; i++) {
            all.set(++last, messageOf(last))
            putInTail(tail, all.get(last)!)
          }
        else if (one.do === "read") {
          const { limit, ...rest } = one.place
          const asked = { limit, ...Object.fromEntries(Object.entries(rest).map(([name, id]) => [name, String(id)])) }
          const page = pageOfTail(tail, asked)
          if (!page) {
            cold++
            continue
          }
          hot++
          expect(page).toEqual(literalPage(all, asked).map(id => all.get(id)))
        } else
          for (let id = one.which; id < one.which + one.count; id++) {
            const found = all.get(id)
            if (!found) continue
            if (one.do === "edit") {
              all.set(id, { ...found, content: `edit ${++edits}` })
              putInTail(tail, all.get(id)!)
            } else {
              all.delete(id)
              if (!dropFromTail(tail, String(id))) tail = load()
            }
          }
    }),
    { numRuns: 300 },
  )
  expect(Math.min(hot, cold)).toBeGreaterThan(10)
})

test("the newest page is always there but after deletions; a page of long messages is none", () => {
  const messages = Array.from({ length: 150 }, (_, i) => messageOf(i + 1))
  const tail = newTail(messages.toReversed().slice(0, tailLength), 0)
  expect(pageOfTail(tail, { limit: 100 })).toHaveLength(100)
  expect(pageOfTail(tail, { limit: 50, before: "101" })).toHaveLength(50)
  expect(pageOfTail(tail, { limit: 51, before: "101" })).toBeUndefined()
  expect(pageOfTail(tail, { limit: 1, after: "50" })).toBeUndefined()
  const isEnough = messages.slice(100).map(({ id }) => dropFromTail(tail, id))
  expect([isEnough.every(Boolean), dropFromTail(tail, "51")]).toEqual([true, false])

  const long = newTail(
    Array.from({ length: 100 }, (_, i) => messageOf(200 - i, "x".repeat(4_000))),
    0,
  )
  expect(pageOfTail(long, { limit: 30 })).toHaveLength(30)
  expect(pageOfTail(long, { limit: 50 })).toBeUndefined()
})

test("it stays short; what an author is called is what was read last, or told since", () => {
  const tail = newTail([messageOf(2), messageOf(1)], 0)
  for (let id = 3; id < 5_000; id++) putInTail(tail, messageOf(id))
  expect(tail.messages.length).toBeLessThan(2 * tailLength)
  expect([tail.isWhole, tail.messages.at(-1)!.id]).toEqual([false, "4999"])

  const named = newTail([{ ...messageOf(9), author_username: "lovelace" }], 0)
  mergeIntoTail(named, messageOf(9, "edited"))
  mergeIntoTail(named, messageOf(10))
  expect(named.messages).toMatchObject([{ author_username: "lovelace", content: "edited" }, { author_username: "ada" }])
  renameInTail(named, "1", "countess", ["star"])
  expect(named.messages).toMatchObject([
    { author_username: "lovelace" },
    { author_username: "countess", author_badges: ["star"] },
  ])
})

test("embeds count for the length of a page, and are put into words once", () => {
  let written = 0
  const embed = () => ({
    x: "x".repeat(5_000),
    toJSON() {
      written++
      return { x: this.x }
    },
  })
  const tail = newTail(
    Array.from({ length: 40 }, (_, i) => ({ ...messageOf(40 - i), embeds: [embed()] })),
    0,
  )
  for (let i = 0; i < 5; i++) {
    expect(pageOfTail(tail, { limit: 20 })).toHaveLength(20)
    expect(pageOfTail(tail, { limit: 30 })).toBeUndefined()
    putInTail(tail, { ...tail.messages[39]!, content: `edit ${i}` })
    renameInTail(tail, "1", `name ${i}`, [])
  }
  expect(written).toBe(40)
})

test("one that is too long is let go, first its older half, then whole; nothing is found in it", () => {
  const long = (id: number) => ({ ...messageOf(id), embeds: [{ x: "x".repeat(7_000) }] })
  const tail = newTail([], 0)
  for (let id = 1; id <= 60; id++) putInTail(tail, long(id))
  for (let id = 61; id <= 120; id++) putInTail(tail, messageOf(id))
  const before = tail.bytes
  expect([tail.isTooLong, tail.messages.length]).toEqual([false, 120])
  for (let id = 121; id <= 132; id++) putInTail(tail, long(id))
  expect([tail.isTooLong, tail.messages.length, tail.isWhole, tail.messages[0]!.id]).toEqual([false, 102, false, "31"])
  expect(tail.bytes).toBeLessThan(before)
  for (const id of tail.messages.slice(0, 20).map(one => one.id)) dropFromTail(tail, id)
  for (const id of tail.messages.map(one => one.id)) putInTail(tail, messageOf(Number(id)))
  expect(tail.bytes).toBe(82 * 500)

  for (let id = 200; id <= 300; id++) putInTail(tail, long(id))
  expect(tail).toMatchObject({ isTooLong: true, messages: [], bytes: 0, isWhole: false })
  putInTail(tail, messageOf(301))
  expect(dropFromTail(tail, "301")).toBe(true)
  for (const place of [
    { limit: 1 },
    { limit: 1, after: "300" },
    { limit: 1, before: "9" },
    { limit: 1, around: "301" },
  ])
    expect(pageOfTail(tail, place)).toBeUndefined()
})
