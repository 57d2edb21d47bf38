import { expect, test } from "vitest"
import { changeTaken, weightOfEvents, type ChangeBudget, type CostedChange } from "./view-changes.ts"

/** A server's budget from when its home woke. */
function newBudget() {
  let budget: ChangeBudget | undefined
  const take = (now: number, { user = "mod", isOwner = false, weight = 1 }: Partial<CostedChange> = {}) => {
    const taken = changeTaken(budget, { user, isOwner, weight }, now)
    if ("waitSeconds" in taken) return taken.waitSeconds
    budget = taken
    return 0
  }
  /** How many of the changes at these moments are granted. */
  const granted = (moments: readonly number[], change?: Partial<CostedChange>) =>
    moments.filter(now => take(now, change) === 0).length
  return { take, granted, shares: () => budget?.shares.size ?? 0 }
}
const at = 1_000_000
const every = (ms: number, count: number, from = at) => Array.from({ length: count }, (_, i) => from + i * ms)
const owner = { user: "owner", isOwner: true }

test("the owner of a server may change who views channels 20 times at once, then twice a second", () => {
  expect(newBudget().granted(every(0, 100), owner)).toBe(20)
  expect(newBudget().granted(every(10, 1_000), owner)).toBe(20 + 19)
  expect(newBudget().granted(every(500, 1_000), owner)).toBe(1_000)
})

test("anybody else may 10 times at once, then once a second", () => {
  expect(newBudget().granted(every(0, 100))).toBe(10)
  expect(newBudget().granted(every(10, 1_000))).toBe(10 + 9)
  expect(newBudget().granted(every(1_000, 1_000))).toBe(1_000)
})

test("P19: all but the owner together leave the owner 5 changes, and a quarter of what comes back", () => {
  const { take, granted } = newBudget()
  const mods = Array.from({ length: 30 }, (_, i) => ({ user: `mod ${i}` }))
  expect(mods.reduce((sum, mod) => sum + granted(every(0, 10), mod), 0)).toBe(15)
  expect(granted(every(0, 10), owner)).toBe(5)
  // They go on for a minute, as fast as they may.
  for (const now of every(10, 6_000)) take(now, mods[now % 30])
  expect(granted(every(0, 20, at + 60_000), owner)).toBeGreaterThanOrEqual(5)
  // All together are bounded, too.
  const all = newBudget()
  const moments = every(10, 6_000)
  const counts = moments.filter((now, i) => all.take(now, i % 2 === 0 ? owner : mods[i % 30]) === 0)
  expect(counts.length).toBeLessThanOrEqual(20 + 120)
})

test("one moderator leaves the others a share", () => {
  const { granted } = newBudget()
  expect(granted(every(0, 100), { user: "hostile" })).toBe(10)
  expect(granted(every(0, 100), { user: "other" })).toBe(5)
})

test("who waits as long as they are told is granted the change; a clock that goes back gives nothing", () => {
  const { take, granted } = newBudget()
  granted(every(0, 20, 5_000), owner)
  const wait = take(5_100, owner)
  expect(wait).toBeCloseTo(0.4)
  expect(take(-1_000_000, owner)).toBe(0.5)
  expect(take(5_100 + wait * 1_000, owner)).toBe(0)
})

test("a refused change takes nothing; shares that are full again are not kept", () => {
  const { take, granted, shares } = newBudget()
  for (let i = 0; i < 100; i++) granted([at + i * 700], { user: `mod ${i}` })
  expect(shares()).toBeLessThan(20)
  granted(every(0, 20, at + 1_000_000), owner)
  const before = take(at + 1_000_000, { user: "new" })
  for (let i = 0; i < 50; i++) expect(take(at + 1_000_000, { user: "new" })).toBe(before)
})

test("events for everybody count by fifties, and the largest move there may be is no more than anybody may", () => {
  expect([0, 49, 50, 250, 499].map(weightOfEvents)).toEqual([0, 0, 1, 5, 9])
  expect(newBudget().take(at, { weight: weightOfEvents(499) + 1 })).toBe(0)
})
