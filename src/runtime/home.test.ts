import { expect, test } from "vitest"
import { Facts } from "../domain/core/facts.ts"
import { defineFact, type Need } from "./facts.ts"
import { Home } from "./home.ts"
import { Shard } from "./shard.ts"

interface State {
  readonly facts: Facts
}

/** A home of two kinds of facts, and what it asked for: each load answers when it is told to. */
function harbour() {
  const asked: {
    name: string
    keys: readonly string[]
    answer: (found: [string, string][]) => void
    fail: () => void
  }[] = []
  const factOf = (name: "birds" | "boats") =>
    defineFact<State, string>({
      keep: 10,
      load: (_storage, _home, keys) =>
        new Promise((resolve, reject) =>
          asked.push({
            name,
            keys,
            answer: found => resolve(new Map(found)),
            fail: () => reject(new Error("out of reach")),
          }),
        ),
    })
  const [birdFacts, boatFacts] = [factOf("birds"), factOf("boats")]
  const state: State = { facts: new Facts() }
  const [birds, boats] = [birdFacts.of(state), boatFacts.of(state)]
  const [bird, boat] = [(key: string) => birdFacts.need(key), (key: string) => boatFacts.need(key)]
  const shard = new Shard({ number: 1, epoch: 1, lastId: undefined, lastRow: 0, positions: new Map(), interests: [] })
  const home = new Home("1", shard, state, 0)
  const load = (...needs: Need<State>[]) => home.loadMissing(needs, {}, 0)
  return { asked, bird, boat, birds, boats, home, load }
}

test("what is missing is asked for by kind, each kind at once and each fact once", async () => {
  const { asked, bird, boat, birds, boats, home, load } = harbour()
  birds.set("known", null)
  expect(load(bird("known"))).toBeUndefined()
  const loaded = load(bird("gull"), boat("brig"), bird("known"), bird("tern"), bird("gull"))
  expect(asked).toMatchObject([
    { name: "birds", keys: ["gull", "tern"] },
    { name: "boats", keys: ["brig"] },
  ])
  expect(home.idle).toBe(false)
  asked[0]!.answer([["gull", "here"]])
  asked[1]!.answer([])
  await loaded
  expect([...birds]).toEqual([
    ["known", null],
    ["gull", "here"],
    ["tern", null],
  ])
  expect([...boats]).toEqual([["brig", null]])
  expect(home.idle).toBe(true)
})

test("what is under way is waited for, and only the rest is asked for", async () => {
  const { asked, bird, birds, load } = harbour()
  const first = load(bird("gull"), bird("tern"))
  let isLoaded = false
  const second = load(bird("tern"), bird("rook"), bird("gull"))!.then(() => (isLoaded = true))
  expect(asked.map(({ keys }) => keys)).toEqual([["gull", "tern"], ["rook"]])
  asked[1]!.answer([["rook", "new"]])
  await Promise.resolve()
  expect(isLoaded).toBe(false)
  asked[0]!.answer([["gull", "here"]])
  await Promise.all([first, second])
  expect(Object.fromEntries(birds)).toEqual({ gull: "here", tern: null, rook: "new" })
})

test("a turn that made it known meanwhile is right", async () => {
  const { asked, bird, birds, load } = harbour()
  const loaded = load(bird("gull"), bird("tern"))
  birds.set("gull", null)
  asked[0]!.answer([
    ["gull", "old"],
    ["tern", "here"],
  ])
  await loaded
  expect(Object.fromEntries(birds)).toEqual({ gull: null, tern: "here" })
})

test("those who waited for what cannot be loaded are told, and it is asked for again", async () => {
  const { asked, bird, birds, home, load } = harbour()
  const waiting = [load(bird("gull"), bird("tern")), load(bird("tern"))]
  asked[0]!.fail()
  for (const one of waiting) await expect(one).rejects.toThrow("out of reach")
  expect([birds.size, home.idle]).toEqual([0, true])
  const again = load(bird("tern"))
  expect(asked[1]!.keys).toEqual(["tern"])
  asked[1]!.answer([["tern", "here"]])
  await again
  expect(birds.get("tern")).toBe("here")
})
