import { expect, test } from "vitest"
import { holdsUnsafeText, isTooDeep, jsonErrorOffset, mayBeUnsafe } from "./json-text.ts"

test("U+0000 and lone surrogates are found in texts and keys, at any depth", () => {
  const holds = (source: string) => mayBeUnsafe(source) && holdsUnsafeText(JSON.parse(source))
  expect(holds('{"a":"\\u0000"}')).toBe(true)
  expect(holds('{"a":[{"b\\u0000":1}]}')).toBe(true)
  expect(holds('["x\\ud83d"]')).toBe(true)
  expect(holds('["\\ude00\\ud83d"]')).toBe(true)
  expect(holds('["\\ud83d\\ude00", "\\u00e9", null, 1]')).toBe(false)
  expect(holds('["\\\\u0000"]')).toBe(false)
})

test("depth is counted outside texts only", () => {
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth)
  expect(isTooDeep(nested(32), 32)).toBe(false)
  expect(isTooDeep(nested(33), 32)).toBe(true)
  expect(isTooDeep(JSON.stringify(`"${"[".repeat(99)}\\`), 32)).toBe(false)
  expect(isTooDeep(`[${"{},".repeat(99)}{}]`, 32)).toBe(false)
})

test("the place where text stops being JSON", () => {
  expect(jsonErrorOffset('{"a":1')).toBe(6)
  expect(jsonErrorOffset('{"a":}')).toBe(5)
  expect(jsonErrorOffset("{a:1}")).toBe(1)
  expect(jsonErrorOffset('{"a":1}}')).toBe(7)
  expect(jsonErrorOffset("[1,2,]")).toBe(5)
  expect(jsonErrorOffset('["a\nb"]')).toBe(3)
  expect(jsonErrorOffset("  nope")).toBe(2)
  expect(jsonErrorOffset("\ufeff{}")).toBe(0)
})
