import fc from "fast-check"
import { expect, test } from "vitest"
import { stretchesBack, stretchesHolding, stretchesOf, type Piece } from "./search-stretches.ts"

const id = fc.bigInt({ min: 0n, max: 2n ** 63n - 1n })
const cellsOf = ({ words }: Piece) => words.match(/:t[^']+/g) ?? []
const unit = 2n ** 37n

test("a message is in the piece of its time and in no other, and later pieces are older", () => {
  const length = { first: fc.integer({ min: 1, max: 10_000 }), growth: fc.constantFrom(1, 2) }
  fc.assert(
    fc.property(fc.tuple(id, id, id, id), fc.record(length), (ids, lengths) => {
      const [from, one, other, below] = ids.toSorted((a, b) => (a < b ? -1 : 1)) as [bigint, bigint, bigint, bigint]
      fc.pre(other < below)
      const pieces = stretchesBack({ from: String(from), below: String(below) }, String(one), lengths)
      expect(pieces.length).toBeLessThan(60)
      const at = (message: bigint) => {
        const own = new Set(stretchesOf(String(message)))
        return pieces.flatMap((piece, i) => {
          const isIn = BigInt(piece.from) <= message && message < BigInt(piece.below)
          // What is in a piece's time is found by its words.
          if (isIn) expect(cellsOf(piece).some(cell => own.has(cell))).toBe(true)
          return isIn ? [i] : []
        })
      }
      const [[newer, ...no], [older, ...none]] = [at(other), at(one)] as [number[], number[]]
      expect([...no, ...none]).toEqual([])
      expect(newer).toBeLessThanOrEqual(older!)
    }),
    { numRuns: 300 },
  )
})

test("the first piece is as long as asked for, each that follows as long as all before it, each of few words", () => {
  const newest = 2n ** 60n
  for (const first of [1, 7, 100, 5_000]) {
    const span = { from: "0", below: String(newest) }
    const pieces = stretchesBack(span, String(newest), { first, growth: 1 })
    let passed = 0
    for (const [i, piece] of pieces.entries()) {
      const length = Number((BigInt(piece.below) - BigInt(piece.from)) / unit)
      // It ends where a longer stretch does.
      if (i < pieces.length - 1) {
        expect(length).toBeGreaterThanOrEqual(Math.max(first, passed))
        expect(length).toBeLessThanOrEqual(Math.max(first, 1.25 * Math.max(first, passed)))
      }
      if (length < 8 ** 7) expect(cellsOf(piece).length).toBeLessThan(40)
      passed += length
    }
    expect(pieces.length).toBeLessThan(40)
  }
  expect(stretchesBack({ from: "7", below: "7" }, "9", { first: 1, growth: 1 })).toEqual([])
})

test("so many stretches hold a share of all messages, as PostgreSQL has counted them", () => {
  const at = (units: number) => String(BigInt(units) * unit)
  // Half of all messages came in the last tenth of the time.
  const spread = [at(0), at(450), at(900), at(950), at(1_000)]
  expect(stretchesHolding(0.25, at(1_000), spread)).toBe(50)
  expect(stretchesHolding(0.5, at(1_000), spread)).toBe(100)
  expect(stretchesHolding(0.75, at(1_000), spread)).toBe(550)
  expect(stretchesHolding(0.1, at(950), spread)).toBe(20)
  expect(stretchesHolding(0.25, at(450), spread)).toBe(450)
  // More than there is; sent since it was counted; nothing counted yet; next to nothing wanted.
  expect(stretchesHolding(5, at(1_000), spread)).toBe(1_000)
  expect(stretchesHolding(0.5, at(5_000), spread)).toBe(100)
  expect(stretchesHolding(0.5, at(5_000), [])).toBe(1)
  expect(stretchesHolding(0, at(1_000), spread)).toBe(1)
  expect(stretchesHolding(0.5, "0", spread)).toBe(1)
})
