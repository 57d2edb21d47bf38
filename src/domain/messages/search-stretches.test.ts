import fc from "fast-check"
import { expect, test } from "vitest"
import { stretchesBack, stretchesOf } from "./search-stretches.ts"

const id = fc.bigInt({ min: 0n, max: 2n ** 63n - 1n })
const cellsOf = (piece: string) => piece.match(/:t[^']+/g) ?? []

test("a message is in the piece of its time and in no other, and later pieces are older", () => {
  fc.assert(
    fc.property(fc.tuple(id, id, id, id), fc.constantFrom(1, 2), (ids, growth) => {
      const [from, one, other, below] = ids.toSorted((a, b) => (a < b ? -1 : 1)) as [bigint, bigint, bigint, bigint]
      fc.pre(other < below)
      const pieces = stretchesBack(String(from), String(below), String(one), growth)
      expect(pieces.length).toBeLessThan(60)
      const at = (message: bigint) => {
        const own = new Set(stretchesOf(String(message)))
        return pieces.flatMap((piece, i) => (cellsOf(piece).some(cell => own.has(cell)) ? [i] : []))
      }
      const [[newer, ...no], [older, ...none]] = [at(other), at(one)] as [number[], number[]]
      expect([...no, ...none]).toEqual([])
      expect(newer).toBeLessThanOrEqual(older!)
    }),
    { numRuns: 300 },
  )
})

test("each piece is about as long as all before it, and nothing is asked for where nothing is wanted", () => {
  const newest = 2n ** 60n
  const lengths = stretchesBack("0", String(newest), String(newest), 1).map(piece =>
    cellsOf(piece).reduce((sum, cell) => sum + 8 ** Number(cell[2]), 0),
  )
  let passed = 0
  for (const length of lengths) {
    expect(length).toBeLessThanOrEqual(Math.max(1, passed))
    passed += length
  }
  expect(lengths.length).toBeLessThan(40)
  expect(stretchesBack("7", "7", "9", 1)).toEqual([])
})
