import { expect, test } from "vitest"
import { inPortions, offline, type PresenceChange } from "./presences.ts"

const change = (user: string, homes: number, except = 0): PresenceChange => ({
  user,
  ...offline,
  version: [1, 1],
  homes: Array.from({ length: homes }, (_, i) => `${i}`),
  except: Array.from({ length: except }, (_, i) => `${i}`),
})
const usersOf = (portions: readonly (readonly PresenceChange[])[]) =>
  portions.map(portion => portion.map(({ user }) => user))

test("changes go in portions with a bounded number of homes and exceptions, in their order, none of them cut", () => {
  expect(inPortions([], 10)).toEqual([])
  const changes = [change("a", 4), change("b", 6), change("c", 1), change("d", 5, 5), change("e", 25), change("f", 1)]
  expect(usersOf(inPortions(changes, 10))).toEqual([["a", "b"], ["c"], ["d"], ["e"], ["f"]])
  expect(inPortions(changes, 10).flat()).toEqual(changes)
})
