import { expect, test } from "vitest"
import { holdsUnsafeText, isDeeper, jsonErrorOffset, mayBeUnsafe, opensDeeper } from "./json-text.ts"

test("U+0000 and lone surrogates are found in texts and keys, at any depth", () => {
  const holds = (source: string) => mayBeUnsafe(source) && holdsUnsafeText(JSON.parse(source))
  expect(holds('{"a":"\\u0000"}')).toBe(true)
  expect(holds('{"a":[{"b\\u0000":1}]}')).toBe(true)
  expect(holds('["x\\ud83d"]')).toBe(true)
  expect(holds('["\\ude00\\ud83d"]')).toBe(true)
  expect(holds('["\\ud83d\\ude00", "\\u00e9", null, 1]')).toBe(false)
  expect(holds('["\\\\u0000"]')).toBe(false)
})

test("depth is counted in values, and in text outside its texts", () => {
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth)
  expect(isDeeper(JSON.parse(nested(32)), 32)).toBe(false)
  expect(isDeeper(JSON.parse(nested(33)), 32)).toBe(true)
  expect(isDeeper(JSON.parse(`[${"{},".repeat(99)}{"__proto__":{"a":1}}]`), 3)).toBe(false)
  expect(opensDeeper(nested(32), 32)).toBe(false)
  expect(opensDeeper("[".repeat(33), 32)).toBe(true)
  expect(opensDeeper('[{"a]\\"[[[[":[', 3)).toBe(false)
  expect(opensDeeper('["[[[', 1)).toBe(false)
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
