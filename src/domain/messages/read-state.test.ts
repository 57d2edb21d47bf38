import { expect, test } from "vitest"
import {
  beginningOf,
  countReaders,
  noteReader,
  orderOf,
  readerOf,
  loadedReaders,
  readersOf,
  readOn,
  readUpTo,
  someReaders,
  type Readers,
  type ReadState,
} from "./read-state.ts"
import { compareIds, epochMs, idOf, msOf, shardOf } from "../core/snowflake.ts"

const id = (place: number) => idOf(7, { ms: epochMs + Math.floor(place / 4096), sequence: place % 4096 })

test("places of one home's ids are exact and in the order of the ids", () => {
  const last = (2 ** 41 - 1) * 4096 + 4095
  for (const place of [0, 1, 4095, 4096, 12_345_678, last - 1, last]) expect(orderOf(id(place))).toBe(place)
  expect(orderOf("0")).toBe(0)
})

test("a member begins where they joined; one who never acknowledged begins there, too", () => {
  const joined_at = Math.floor(epochMs / 1000) + 1_000
  const beginning = beginningOf({ joined_at })
  expect(msOf(beginning)).toBe(joined_at * 1000)
  expect(shardOf(beginning)).toBe(0)
  expect(beginningOf({ joined_at, since_id: "5" })).toBe("5")
  expect(beginningOf({ joined_at, since_id: null })).toBe(beginning)
  const state = { since_id: "0", message_id: "20", visible_id: "20", gaps: [] }
  expect(readUpTo(state, "10")).toBe("20")
  expect(readUpTo(state, "100")).toBe("100")
  expect(readUpTo(null, "100")).toBe("100")
})

test("counts and names equal those of a loop over all readers, after every change", () => {
  let seed = 4711
  const random = (below: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
    return Math.floor((seed / 2 ** 32) * below)
  }
  const facts = new Map<string, { state: ReadState | null; shown: Set<number> }>()
  const read = (user: string) => {
    const { state, shown } = facts.get(user) ?? { state: null, shown: new Set<number>() }
    // Now and then somebody was away, or does not show it.
    const beginning = id(state ? (random(5) === 0 ? orderOf(state.message_id) + random(20) : 0) : random(300))
    const from = orderOf(readUpTo(state, beginning))
    const upto = from + random(30)
    const isShown = random(3) > 0
    if (upto > from) {
      for (let place = from + 1; place <= upto; place++) if (isShown) shown.add(place)
      facts.set(user, { state: readOn(state, beginning, { message_id: id(upto), isShown }), shown })
    }
    const after = facts.get(user)?.state
    return after ? readerOf(user, after) : undefined
  }
  const loaded = Array.from({ length: 40 }, (_, i) => read(`u${i}`)).flatMap(reader => reader ?? [])
  const readers: Readers = readersOf(loadedReaders(loaded).byUser)
  for (let step = 0; step < 400; step++) {
    const reader = read(`u${random(80)}`)
    if (reader) noteReader(readers, reader)
    expect(readers).toEqual(readersOf(new Map(readers.byUser)))
    const [place, author] = [random(400), `u${random(80)}`]
    const expected = [...facts].filter(([user, { shown }]) => user !== author && shown.has(place)).map(([user]) => user)
    expect(countReaders(readers, id(place), author)).toBe(expected.length)
    expect(someReaders(readers, id(place), author, 100).toSorted(compareIds)).toEqual(expected.toSorted(compareIds))
    expect(someReaders(readers, id(place), author, 3)).toHaveLength(Math.min(3, expected.length))
  }
})

test("what was hidden stays hidden, however often a user changes the setting", () => {
  let state: ReadState | null = null
  const hidden: number[] = []
  const shown: number[] = []
  for (let place = 1; place <= 200; place++) {
    const isShown = place % 2 === 0
    state = readOn(state, "0", { message_id: id(place), isShown })
    ;(isShown ? shown : hidden).push(place)
  }
  expect(state!.gaps).toHaveLength(32)
  const readers = readersOf(loadedReaders([readerOf("u", state!)!]).byUser)
  const isSeen = (place: number) => countReaders(readers, id(place), "x") === 1
  expect(hidden.filter(isSeen)).toEqual([])
  expect(shown.filter(isSeen)).toEqual(shown.slice(-16))
  // Nothing was shown before: what the user has read until now is never seen.
  const later = readOn(readOn(null, "0", { message_id: id(100), isShown: false }), "0", {
    message_id: id(101),
    isShown: true,
  })
  expect([later.gaps, later.visible_id]).toEqual([["0", id(100)], id(101)])
})
