import { expect, test } from "vitest"
import { setNewest } from "./bounded-map.ts"

test("the key that was set longest ago goes first, and setting a key again makes it the newest", () => {
  const map = new Map<string, number>()
  for (const [key, value] of [
    ["a", 1],
    ["b", 2],
    ["a", 3],
    ["c", 4],
  ] as const)
    setNewest(map, key, value, 2)
  expect([...map]).toEqual([
    ["a", 3],
    ["c", 4],
  ])
})
