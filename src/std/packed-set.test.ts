import { expect, test } from "vitest"
import { PackedSet } from "./packed-set.ts"

const made = (count: number) => Array.from({ length: count }, (_, n) => ({ n }))

test("it holds what a Set holds, however much comes and goes", () => {
  const values = made(200)
  const packed = new PackedSet<{ n: number }>()
  const expected = new Set<{ n: number }>()
  let seed = 7
  for (let step = 0; step < 20_000; step++) {
    seed = (seed * 48_271) % 2_147_483_647
    const value = values[seed % values.length]!
    // More come in the first half than go, and more go in the second.
    const comes = seed % 10 < (step < 10_000 ? 7 : 2)
    if (comes && !expected.has(value)) {
      packed.add(value)
      expected.add(value)
    } else if (!comes && expected.delete(value)) packed.delete(value)
    expect(packed.size).toBe(expected.size)
    if (step % 500 === 0) expect(new Set(packed)).toEqual(expected)
  }
  expect([...packed]).toHaveLength(expected.size)
})

test("while it is gone through, who comes is met, and who has gone is not; nobody is met twice or left out", () => {
  const values = made(1_000)
  const packed = new PackedSet<{ n: number }>()
  for (const value of values.slice(0, 900)) packed.add(value)
  const met: number[] = []
  for (const { n } of packed) {
    met.push(n)
    // Fewer than half, so that the list stays; then all that are left, so that it is made anew.
    if (n === 0) for (const value of values.slice(500, 800)) packed.delete(value)
    if (n === 1) for (const value of values.slice(900)) packed.add(value)
  }
  expect(met).toEqual(values.map(({ n }) => n).filter(n => n < 500 || n >= 800))
  const left: number[] = []
  for (const { n } of packed) {
    left.push(n)
    if (n === 0) for (const value of values.slice(1, 400)) packed.delete(value)
  }
  expect(left.filter(n => n >= 400)).toEqual(values.map(({ n }) => n).filter(n => n >= 800 || (n >= 400 && n < 500)))
  expect(new Set(left).size).toBe(left.length)
})
