import fc from "fast-check"
import { expect, test } from "vitest"
import { deliveredUpTo, MessageMarks } from "./message-marks.ts"

test("marks know the earliest id time after a position, whichever came first", () => {
  fc.assert(
    fc.property(fc.array(fc.record({ home: fc.nat(2), ms: fc.nat(50) }), { maxLength: 60 }), fc.nat(60), (log, s) => {
      const marks = new MessageMarks()
      for (const [i, { home, ms }] of log.entries()) marks.note(String(home), i, ms)
      for (const home of [0, 1, 2]) {
        const after = log.filter((piece, i) => piece.home === home && i > s)
        expect(marks.freeUpTo(String(home), s)).toBe(Math.min(...after.map(({ ms }) => ms)) - 1)
        expect(marks.hasAfter(String(home), s)).toBe(after.length > 0)
        expect(marks.latest(String(home))).toBe(
          Math.max(...log.filter(piece => piece.home === home).map(({ ms }) => ms)),
        )
      }
    }),
  )
})

test("of what was forgotten marks say nothing, rather than that there was nothing", () => {
  const marks = new MessageMarks()
  for (let s = 0; s < 5_000; s++) marks.note("1", s, s)
  expect(marks.freeUpTo("1", 10)).toBe(-Infinity)
  expect(marks.freeUpTo("1", 4_990)).toBe(4_990)
  expect(marks.freeUpTo("1", 5_000)).toBe(Infinity)
  // Too many homes: those that nothing was heard of for the longest time go.
  for (let i = 0; i < 25_000; i++) marks.note(`home ${i}`, 5_000 + i, i)
  expect(marks.freeUpTo("1", 4_990)).toBe(-Infinity)
  expect(marks.hasAfter("1", 4_990)).toBe(true)
  expect(marks.freeUpTo("home 24999", 15_000)).toBe(24_998)
  // Whatever was there may be what was forgotten.
  expect(marks.freeUpTo("home 24999", 4_990)).toBe(-Infinity)
  expect(marks.freeUpTo("nothing was ever there", 30_000)).toBe(Infinity)
})

test("marks of all homes together have a bound, and what is forgotten for it is not said to be free", () => {
  const marks = new MessageMarks(1_000)
  for (let i = 0; i < 5_000; i++) marks.note(`home ${i % 50}`, i, i)
  expect(marks.count).toBeLessThanOrEqual(1_000)
  for (let i = 0; i < 50; i++) expect(marks.freeUpTo(`home ${i}`, 4_000)).toBeLessThan(4_000 + 50)
  expect(marks.freeUpTo("home 49", 4_998)).toBe(4_998)
  // One home alone has as many as it is asked to keep.
  for (let i = 5_000; i < 12_000; i++) marks.note("busy", i, i, 5_000)
  expect(marks.freeUpTo("busy", 11_000)).toBe(11_000)
})

test("what is not known to stand in the log yet is waited for, and what is before it is not", () => {
  const marks = new MessageMarks()
  marks.note("1", 5, 100)
  expect(deliveredUpTo(marks, ["1"], 5, 99)).toEqual({ upTo: 99, isAll: false })
  expect(deliveredUpTo(marks, ["1"], 5, 100)).toEqual({ upTo: 100, isAll: true })
  expect(deliveredUpTo(marks, ["1"], 4, 200)).toEqual({ upTo: 99, isAll: true })
  expect(deliveredUpTo(marks, ["2"], 4, 200)).toEqual({ upTo: 200, isAll: true })
  expect(deliveredUpTo(marks, [], 4, -Infinity)).toEqual({ upTo: -Infinity, isAll: false })
})
