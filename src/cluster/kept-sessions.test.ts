import { expect, test } from "vitest"
import { KeptSessions } from "./kept-sessions.ts"

function keeper(bounds = { sessions: 3, bytes: 1_000, forMs: 30_000 }) {
  const at = { ms: 1_000_000, term: 1 as number | undefined }
  const timers = new Set<() => void>()
  const every = (_ms: number, action: () => void) => {
    timers.add(action)
    return { stop: () => void timers.delete(action) }
  }
  const clock = { monotonic: () => at.ms, now: () => at.ms, every }
  const kept = new KeptSessions<{ id: string }>({ bounds, term: () => at.term, clock })
  const found = (id: string, bytes = 10, endsAt = Infinity) => ({
    session: { id },
    hash: Buffer.from(""),
    activeAt: 0,
    endsAt,
    bytes,
  })
  const keep = (id: string, ...more: [bytes?: number, endsAt?: number]) =>
    kept.keep(kept.begin(), id, found(id, ...more))
  return { at, kept, found, keep, timers }
}

test("KEPT1: what is looked up while sessions are dropped is not kept; what is looked up after it is", () => {
  const { kept, found, keep } = keeper()
  const look = kept.begin()
  kept.drop(["1"])
  kept.keep(look, "1", found("1"))
  expect(kept.find("1")).toBeUndefined()
  keep("1")
  expect(kept.find("1")?.session).toEqual({ id: "1" })
  const another = kept.begin()
  kept.dropAll()
  kept.keep(another, "2", found("2"))
  expect([kept.find("1"), kept.find("2")]).toEqual([undefined, undefined])
})

test("KEPT2: what was kept in one term is not found in another, nor while there is none, nor kept by a look from before", () => {
  const { at, kept, found, keep } = keeper()
  keep("1")
  at.term = undefined
  expect(kept.find("1")).toBeUndefined()
  keep("2")
  at.term = 1
  expect(kept.find("2")).toBeUndefined()
  keep("1")
  const look = kept.begin()
  at.term = 2
  // Nobody has looked in between.
  kept.keep(look, "3", found("3"))
  expect([kept.find("1"), kept.find("3"), kept.size]).toEqual([undefined, undefined, 0])
})

test("KEPT2: a term in which nothing was looked for leaves nothing to the next", () => {
  const { at, kept, keep } = keeper()
  keep("1")
  at.term = 2
  keep("2")
  expect(kept.find("1")).toBeUndefined()
  expect(kept.find("2")).toBeDefined()
})

test("KEPT3: a session is kept from the beginning of its look for so long, and no longer than it or its tier lasts", () => {
  const { at, kept, found, keep } = keeper()
  const look = kept.begin()
  at.ms += 29_999
  kept.keep(look, "1", found("1"))
  keep("2", 10, at.ms / 1000 + 5)
  expect(kept.find("1")).toBeDefined()
  at.ms += 1
  expect(kept.find("1")).toBeUndefined()
  at.ms += 4_998
  expect(kept.find("2")).toBeDefined()
  at.ms += 1
  expect(kept.find("2")).toBeUndefined()
})

test("no more are kept than the bounds say, neither in number nor in bytes; the oldest go, and those whose time is over", () => {
  const { at, kept, keep } = keeper()
  for (const id of ["1", "2", "3", "4"]) keep(id)
  expect(["1", "2", "3", "4"].filter(id => kept.find(id))).toEqual(["2", "3", "4"])
  keep("5", 990)
  expect(["2", "3", "4", "5"].filter(id => kept.find(id))).toEqual(["4", "5"])
  // The same again does not count twice.
  for (let i = 0; i < 5; i++) keep("4")
  expect(kept.size).toBe(2)
  kept.drop(["5"])
  keep("6", 980)
  expect(kept.size).toBe(2)
  at.ms += 30_000
  keep("7")
  expect(kept.size).toBe(1)
})

test("what is over is forgotten though nothing comes after it, and then nobody looks any more", () => {
  const { at, kept, keep, timers } = keeper()
  keep("1")
  at.ms += 15_000
  keep("2")
  expect(timers.size).toBe(1)
  const sweep = () => timers.forEach(action => action())
  at.ms += 15_000
  sweep()
  expect([kept.size, timers.size]).toEqual([1, 1])
  at.ms += 15_000
  sweep()
  expect([kept.size, timers.size]).toEqual([0, 0])
})
