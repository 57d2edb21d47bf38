import { expect, test } from "vitest"
import { limits } from "../../contract/core/limits.ts"
import { nextPosition } from "./channels.ts"

const list = (...positions: number[]) => positions.map(position => ({ position }))

test("a new channel comes after all others, and beside them where no number is left", () => {
  expect(nextPosition([])).toBe(0)
  expect(nextPosition(list(0, 7, 3))).toBe(8)
  expect(nextPosition(list(0, limits.channelPosition - 1))).toBe(limits.channelPosition)
  expect(nextPosition(list(limits.channelPosition, 2))).toBe(limits.channelPosition)
})
