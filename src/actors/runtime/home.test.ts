import { expect, test } from "vitest"
import type { Storage } from "../../storage/storage.ts"
import { needOf, type NeedKind } from "./actor.ts"
import { Home } from "./home.ts"
import { Shard } from "./shard.ts"

type State = Record<"birds" | "boats", Map<string, string | null>>

/** A home of two kinds of facts, and what it asked for: each load answers when it is told to. */
function harbour() {
  const asked: {
    name: string
    keys: readonly string[]
    answer: (found: [string, string][]) => void
    fail: () => void
  }[] = []
  const kindOf = (name: keyof State): NeedKind<State, string> => ({
    name,
    keep: 10,
    map: state => state[name],
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
  const [bird, boat] = [needOf(kindOf("birds")), needOf(kindOf("boats"))]
  const state: State = { birds: new Map(), boats: new Map() }
  const shard = new Shard({ number: 1, epoch: 1, lastId: undefined, lastRow: 0, positions: new Map(), interests: [] })
  const home = new Home("1", shard, { name: "harbour", load: () => Promise.resolve(undefined) }, state, 0)
  const load = (...needs: ReturnType<typeof bird>[]) => home.loadMissing(needs, {} as Storage, 0)
  return { asked, bird, boat, state, home, load }
}

test("what is missing is asked for by kind, each kind at once and each fact once", async () => {
  const { asked, bird, boat, state, home, load } = harbour()
  state.birds.set("known", null)
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
  expect([...state.birds]).toEqual([
    ["known", null],
    ["gull", "here"],
    ["tern", null],
  ])
  expect([...state.boats]).toEqual([["brig", null]])
  expect(home.idle).toBe(true)
})

test("what is under way is waited for, and only the rest is asked for", async () => {
  const { asked, bird, state, load } = harbour()
  const first = load(bird("gull"), bird("tern"))
  let isLoaded = false
  const second = load(bird("tern"), bird("rook"), bird("gull"))!.then(() => (isLoaded = true))
  expect(asked.map(({ keys }) => keys)).toEqual([["gull", "tern"], ["rook"]])
  asked[1]!.answer([["rook", "new"]])
  await Promise.resolve()
  expect(isLoaded).toBe(false)
  asked[0]!.answer([["gull", "here"]])
  await Promise.all([first, second])
  expect(Object.fromEntries(state.birds)).toEqual({ gull: "here", tern: null, rook: "new" })
})

test("a turn that made it known meanwhile is right", async () => {
  const { asked, bird, state, load } = harbour()
  const loaded = load(bird("gull"), bird("tern"))
  state.birds.set("gull", null)
  asked[0]!.answer([
    ["gull", "old"],
    ["tern", "here"],
  ])
  await loaded
  expect(Object.fromEntries(state.birds)).toEqual({ gull: null, tern: "here" })
})

test("whoever waited for what cannot be loaded is told, and it is asked for again", async () => {
  const { asked, bird, state, home, load } = harbour()
  const waiting = [load(bird("gull"), bird("tern")), load(bird("tern"))]
  asked[0]!.fail()
  for (const one of waiting) await expect(one).rejects.toThrow("out of reach")
  expect([state.birds.size, home.idle]).toEqual([0, true])
  const again = load(bird("tern"))
  expect(asked[1]!.keys).toEqual(["tern"])
  asked[1]!.answer([["tern", "here"]])
  await again
  expect(state.birds.get("tern")).toBe("here")
})
