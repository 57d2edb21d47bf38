import fc from "fast-check"
import { expect, test } from "vitest"
import { column, defineWrite, groupWrites, type Write } from "./write.ts"

interface Row {
  home: string
  order: number
}
const kinds = ["insert", "update", "delete"].map(name => defineWrite<Row>(name, sql => sql``))

type Turns = { home: string; writes: Write[] }[]
/** Turns of a few homes whose writes are numbered in the order in which they were decided. */
const turns: fc.Arbitrary<Turns> = fc
  .array(
    fc.record({
      home: fc.constantFrom("a", "b", "c", "d"),
      kinds: fc.array(fc.integer({ min: 0, max: kinds.length - 1 }), { maxLength: 4 }),
    }),
    { maxLength: 40 },
  )
  .map(list => {
    let order = 0
    return list.map(turn => ({
      home: turn.home,
      writes: turn.kinds.map(kind => kinds[kind]!({ home: turn.home, order: order++ })),
    }))
  })

test("every write stands in one group of its own kind, and each home's writes keep their order", () => {
  fc.assert(
    fc.property(turns, list => {
      const groups = groupWrites(list)
      const written = groups.flatMap(({ kind, rows }) => rows.map(row => ({ kind, row: row as Row })))
      const decided = list.flatMap(turn => turn.writes) as unknown as { kind: unknown; row: Row }[]
      expect(new Set(written.map(({ row }) => row))).toEqual(new Set(decided.map(({ row }) => row)))
      expect(written).toHaveLength(decided.length)
      for (const { kind, row } of decided) expect(written.find(one => one.row === row)!.kind).toBe(kind)
      for (const home of "abcd") {
        const orders = written.filter(({ row }) => row.home === home).map(({ row }) => row.order)
        expect(orders).toEqual(orders.toSorted((a, b) => a - b))
      }
    }),
    { numRuns: 300 },
  )
})

test("writes of one kind are one group, however many homes they come from", () => {
  const insert = kinds[0]!
  const list = Array.from({ length: 50 }, (_, i) => ({
    home: `home ${i % 7}`,
    writes: [insert({ home: `home ${i % 7}`, order: i })],
  }))
  expect(groupWrites(list)).toHaveLength(1)
})

test("a home that inserts, edits and inserts again needs three groups; another home joins them", () => {
  const [insert, update] = kinds
  const groups = groupWrites([
    { home: "a", writes: [insert!({ home: "a", order: 0 })] },
    { home: "a", writes: [update!({ home: "a", order: 1 })] },
    { home: "a", writes: [insert!({ home: "a", order: 2 })] },
    { home: "b", writes: [insert!({ home: "b", order: 3 })] },
  ])
  expect(groups.map(({ kind, rows }) => [kind.name, rows.map(row => (row as Row).order)])).toEqual([
    ["insert", [0]],
    ["update", [1]],
    ["insert", [2, 3]],
  ])
})

test("a column's values are parameters for unnest: flags as text, nothing as null", () => {
  const rows = [
    { a: 1, b: true },
    { a: undefined, b: false },
  ]
  expect(column(rows, "a")).toEqual([1, null])
  expect(column(rows, "b")).toEqual(["true", "false"])
})
