import fc from "fast-check"
import { expect, test } from "vitest"
import { JsonProblem, jsonItems, linesOf } from "./json-items.ts"

/** The text in pieces of so many bytes. */
async function* pieces(text: string | Buffer, bytes: number) {
  const all = Buffer.from(text)
  for (let at = 0; at < all.length; at += bytes) yield all.subarray(at, at + bytes)
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}

test("an array comes item by item, an object member by member, its lists item by item", async () => {
  const value = fc.jsonValue({ maxDepth: 3 })
  await fc.assert(
    fc.asyncProperty(
      fc.array(value),
      fc.dictionary(
        fc.string().filter(key => key !== "list"),
        value,
      ),
      fc.integer({ min: 1, max: 40 }),
      fc.constantFrom(0, 2),
      async (items, members, bytes, indent) => {
        const options = { maxItemBytes: 100_000, lists: ["list"] }
        const array = await all(jsonItems(pieces(JSON.stringify(items, null, indent), bytes), options))
        expect(array.map(item => "value" in item && item.value)).toEqual(JSON.parse(JSON.stringify(items)))
        const whole = { ...members, list: items }
        const object = await all(jsonItems(pieces(JSON.stringify(whole, null, indent), bytes), options))
        const expected = Object.entries(JSON.parse(JSON.stringify(whole)) as object).flatMap(([key, one]) =>
          key === "list" ? items.map(item => [key, JSON.parse(JSON.stringify(item))]) : [[key, one]],
        )
        expect(object.map(item => "value" in item && [item.key, item.value])).toEqual(expected)
      },
    ),
    { numRuns: 300 },
  )
})

test("what is broken is said with its line, and the next is read", async () => {
  const text = '[\n {"a": 1},\n {"a": nothing, "b": "],"},\n {"a": "long long long long"},\n {"a": 4}\n]'
  const found = await all(jsonItems(pieces(text, 7), { maxItemBytes: 28 }))
  expect(found).toEqual([
    { key: null, line: 2, bytes: 8, value: { a: 1 } },
    { line: 3, problem: expect.stringContaining("JSON") },
    { key: null, line: 4, bytes: 28, value: { a: "long long long long" } },
    { key: null, line: 5, bytes: 9, value: { a: 4 } },
  ])
  expect(await all(jsonItems(pieces(text, 7), { maxItemBytes: 27 }))).toContainEqual({
    line: 4,
    problem: "it is longer than 27 bytes",
  })
  for (const cut of ["", "[", '{"messages": [{"a": 1}', '{"a', "7", "[1]]", '{"a", 1}', "[1}", '{"messages": [1}'])
    await expect(all(jsonItems(pieces(cut, 3), { maxItemBytes: 100, lists: ["messages"] })), cut).rejects.toThrow(
      JsonProblem,
    )
})

test("lines have their numbers, and those that are too long are named", async () => {
  const text = "one\r\n\ntwo\n" + "x".repeat(50) + "\nlast"
  for (const bytes of [1, 4, 100])
    expect(await all(linesOf(pieces(text, bytes), 10))).toEqual([
      { line: 1, text: "one" },
      { line: 3, text: "two" },
      { line: 4, text: undefined },
      { line: 5, text: "last" },
    ])
})
