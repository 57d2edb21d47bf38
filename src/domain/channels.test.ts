import fc from "fast-check"
import { expect, test } from "vitest"
import { renumberedChannels } from "./channels.ts"

const list = (...positions: number[]) => positions.map((position, i) => ({ id: `${i + 1}`, position }))
const moved = (positions: number[], asked: [string, number][]) => {
  const places = renumberedChannels(list(...positions), new Map(asked))
  return [...places]
    .toSorted(([, a], [, b]) => a - b)
    .map(([id]) => id)
    .join("")
}

test("a channel gets the place that was asked for, and the others keep their order", () => {
  expect(moved([0, 1, 2, 3], [["1", 2]])).toBe("2314")
  expect(moved([0, 1, 2, 3], [["4", 0]])).toBe("4123")
  expect(moved([0, 1, 2, 3], [["2", 99]])).toBe("1342")
  const swapped: [string, number][] = [["4", 0], ["1", 3]] // prettier-ignore
  expect(moved([0, 1, 2, 3], swapped)).toBe("4231")
  const both: [string, number][] = [["3", 0], ["4", 0]] // prettier-ignore
  expect(moved([0, 1, 2, 3], both)).toBe("3412")
  expect(moved([0, 1, 2, 3], both.toReversed())).toBe("4312")
})

test("where places are free a position means what stands there or comes next, and what stays moves nothing", () => {
  expect(moved([0, 2, 3], [["2", 2]])).toBe("")
  expect(moved([0, 2, 3], [["1", 2]])).toBe("213")
  expect(moved([0, 2, 3], [["3", 1]])).toBe("132")
  expect(moved([0, 1, 2], [])).toBe("")
  expect(moved([], [])).toBe("")
})

test("whatever is asked of whatever was, there is one dense order of the same channels", () => {
  const channels = fc.uniqueArray(fc.nat(40), { maxLength: 20 }).map(positions => list(...positions))
  const asked = fc.array(fc.tuple(fc.integer({ min: 1, max: 22 }).map(String), fc.nat(50)), { maxLength: 25 })
  fc.assert(
    fc.property(channels, asked, (before, moves) => {
      const known = moves.filter(([id]) => before.some(channel => channel.id === id))
      const places = renumberedChannels(before, new Map(known))
      if (places.size === 0) return
      expect([...places.keys()].toSorted()).toEqual(before.map(({ id }) => id).toSorted())
      expect([...places.values()].toSorted((a, b) => a - b)).toEqual(before.map((_, i) => i))
      // Who was not asked for keeps his order.
      const others = before.filter(({ id }) => !known.some(([each]) => each === id))
      const byPlace = others.toSorted((a, b) => places.get(a.id)! - places.get(b.id)!)
      expect(byPlace).toEqual(others.toSorted((a, b) => a.position - b.position))
    }),
  )
})
