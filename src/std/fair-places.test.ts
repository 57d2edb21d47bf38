import { expect, test } from "vitest"
import { FairPlaces } from "./fair-places.ts"

const turn = () => new Promise(resolve => setImmediate(resolve))

function scene(places = 2) {
  const all = new FairPlaces(places, 3)
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const run = (holder: string, name: string, isAwaited = true, isLong = false) =>
    all.run(holder, { isAwaited, isLong }, async () => {
      begun.push(name)
      await new Promise<void>(end => ends.set(name, end))
      return name
    })
  return { all, begun, run, end: (name: string) => (ends.get(name)!(), turn()) }
}

test("one holder has one place, although others are free; then it is the others' turn", async () => {
  const { all, begun, run, end } = scene()
  const ran = [run("a", "a1"), run("a", "a2"), run("a", "a3"), run("a", "a4")]
  await turn()
  expect([begun, all.isFull("a"), all.isFull("b")]).toEqual([["a1"], true, false])
  ran.push(run("b", "b1"), run("c", "c1"))
  await turn()
  expect(begun).toEqual(["a1", "b1"])
  await end("a1")
  expect(begun).toEqual(["a1", "b1", "a2"])
  await end("b1")
  expect(begun.at(-1)).toBe("c1")
  ran.push(run("b", "b2"))
  await end("a2")
  // Of two that wait, the one whose turn is longer ago.
  expect(begun.at(-1)).toBe("a3")
  await end("c1")
  expect(begun.at(-1)).toBe("b2")
  for (const name of ["a3", "b2", "a4"]) await end(name)
  expect(await Promise.all(ran)).toEqual(["a1", "a2", "a3", "a4", "b1", "c1", "b2"])
})

test("what somebody waits for comes first, and what fails makes way like anything else", async () => {
  const { all, begun, run, end } = scene(1)
  const ran = [run("a", "a1", false), run("a", "a2", false), run("b", "b1", false), run("b", "b2"), run("a", "a3")]
  for (const name of ["a1", "a3", "b2", "a2", "b1"]) {
    await turn()
    expect(begun.at(-1)).toBe(name)
    await end(name)
  }
  await Promise.all(ran)
  await expect(all.run("a", { isAwaited: true }, () => Promise.reject(new Error("it failed")))).rejects.toThrow(
    "it failed",
  )
  expect(await all.run("a", { isAwaited: true }, () => Promise.resolve("next"))).toBe("next")
})

test("long tasks, of however many holders, leave a place to the others", async () => {
  const { begun, run, end } = scene(2)
  const ran = [run("a", "a long", true, true), run("b", "b long", true, true), run("c", "c long", false, true)]
  // One that waits for its long one has turns for the others meanwhile.
  ran.push(run("d", "d1"), run("b", "b1"))
  await turn()
  expect(begun).toEqual(["a long", "d1"])
  await end("d1")
  expect(begun.at(-1)).toBe("b1")
  await end("b1")
  expect(begun).toHaveLength(3)
  await end("a long")
  expect(begun.at(-1)).toBe("b long")
  await end("b long")
  expect(begun.at(-1)).toBe("c long")
  await end("c long")
  await Promise.all(ran)

  const only = scene(1)
  const last = [only.run("a", "a long", true, true), only.run("b", "b long", true, true)]
  await turn()
  expect(only.begun).toEqual(["a long"])
  await only.end("a long")
  await only.end("b long")
  await Promise.all(last)
})
