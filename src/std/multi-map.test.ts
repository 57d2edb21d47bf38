import { expect, test } from "vitest"
import { append } from "./multi-map.ts"

test("values of one key keep the order in which they come", () => {
  const lists = new Map<string, number[]>()
  for (const [key, value] of [
    ["a", 1],
    ["b", 2],
    ["a", 3],
  ] as const)
    append(lists, key, value)
  expect([...lists]).toEqual([
    ["a", [1, 3]],
    ["b", [2]],
  ])
})
