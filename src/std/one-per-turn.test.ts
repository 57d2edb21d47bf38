import { expect, test } from "vitest"
import { OnePerTurn } from "./one-per-turn.ts"

test("who waits goes on in order, one per turn of the event loop", async () => {
  const turns = new OnePerTurn()
  let turn = 0
  const next = () => {
    turn++
    immediate = setImmediate(next)
  }
  let immediate = setImmediate(next)
  const seen = await Promise.all(
    [0, 1, 2, 3, 4].map(async at => {
      await turns.wait()
      return { at, turn }
    }),
  )
  clearImmediate(immediate)
  expect(seen.map(({ at }) => at)).toEqual([0, 1, 2, 3, 4])
  expect(new Set(seen.map(one => one.turn)).size).toBe(5)
})
