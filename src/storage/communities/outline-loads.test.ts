import { expect, test } from "vitest"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Clock } from "../../std/clock.ts"
import type { ServerOutline } from "./servers.ts"
import { OutlineLoads } from "./outline-loads.ts"

const clock = { soon: (action: () => void) => void setImmediate(action) } as unknown as Clock
const outline = (id: Snowflake) => ({ id }) as unknown as ServerOutline

function loads(sizes: Record<Snowflake, number>, maxConcurrent = 8) {
  const statements: (readonly Snowflake[])[] = []
  let [now, most] = [0, 0]
  const outlines = new OutlineLoads({
    source: {
      outlineBytes: ids =>
        Promise.resolve(new Map(ids.flatMap(id => (id in sizes ? [[id, sizes[id]!] as const] : [])))),
      async outlines(ids) {
        statements.push(ids)
        most = Math.max(most, ++now)
        await new Promise(resolve => setImmediate(resolve))
        now--
        if (ids.includes("broken")) throw new Error("statement timeout")
        return ids.map(outline)
      },
    },
    maxConcurrent,
    clock,
  })
  return { outlines, statements, most: () => most }
}

test("small servers that are asked for in one turn are loaded by one statement; one that is gone is undefined", async () => {
  const { outlines, statements } = loads({ a: 1_000, b: 2_000 })
  expect(await Promise.all(["a", "b", "a", "gone"].map(id => outlines.load(id)))).toEqual([
    outline("a"),
    outline("b"),
    outline("a"),
    undefined,
  ])
  expect(statements).toEqual([["a", "b"]])
})

test("P19: a server that is large, too large or fails is loaded alone, and fails alone", async () => {
  const { outlines, statements } = loads({ a: 1_000, large: 4e6, heavy: 2e8, broken: 3e6, b: 1_000 })
  const asked = ["a", "large", "heavy", "broken", "b"].map(id => outlines.load(id))
  const outcomes = await Promise.allSettled(asked)
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "rejected", "fulfilled"])
  // Nothing is read of what is too large.
  expect(statements).toEqual([["a"], ["large"], ["broken"], ["b"]])
  expect(await outlines.load("a")).toEqual(outline("a"))
})

test("no more statements than allowed are under way, and a statement has bounded bytes", async () => {
  const ids = Array.from({ length: 300 }, (_, i) => `s${i}`)
  const { outlines, statements, most } = loads(Object.fromEntries(ids.map(id => [id, 20_000])), 4)
  await Promise.all(ids.map(id => outlines.load(id)))
  expect(statements.flat()).toEqual(ids)
  expect(Math.max(...statements.map(({ length }) => length))).toBe(13)
  expect(most()).toBe(4)
})
