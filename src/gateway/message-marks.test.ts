import fc from "fast-check"
import { expect, test } from "vitest"
import { MessageMarks } from "./message-marks.ts"

const between = (marks: MessageMarks, home: string, from: number, s: number) => [...marks.between(home, from, s)]

test("marks know the latest message between two positions, and the first after one, of each DM channel by itself", () => {
  const entry = fc.record({ home: fc.nat(2), of: fc.nat(1) })
  fc.assert(
    fc.property(fc.array(entry, { maxLength: 60 }), fc.nat(60), fc.nat(60), (log, after, s) => {
      const marks = new MessageMarks()
      for (const [i, { home, of }] of log.entries()) marks.note(String(home), String(of), i, String(100 + i))
      for (const home of [0, 1, 2]) {
        const found = new Map(between(marks, String(home), after, s))
        for (const of of [0, 1]) {
          const its = log.flatMap((piece, i) => (piece.home === home && piece.of === of ? [i] : []))
          const last = its.findLast(i => i <= s)
          expect(found.get(String(of))).toBe(last !== undefined && last > after ? String(100 + last) : undefined)
          const next = its.find(i => i > s)
          expect(marks.firstAfter(String(home), String(of), s)).toBe(
            next === undefined ? undefined : String(100 + next),
          )
        }
      }
    }),
  )
})

test("a message that is appended again after a later one is not covered by that", () => {
  const marks = new MessageMarks()
  for (const [s, id] of [
    [1, "5"],
    [2, "7"],
    [3, "6"],
  ] as const)
    marks.note("1", "1", s, id)
  expect(between(marks, "1", 0, 2)).toEqual([["1", "5"]])
  expect(between(marks, "1", 0, 3)).toEqual([["1", "6"]])
})

test("of what was forgotten nobody is said to have received anything", () => {
  const marks = new MessageMarks()
  for (let s = 0; s < 5_000; s++) marks.note("1", "1", s, String(s))
  expect(marks.count).toBeLessThanOrEqual(1_024)
  expect(between(marks, "1", -1, 10)).toEqual([])
  expect(between(marks, "1", -1, 4_990)).toEqual([["1", "4990"]])
  // Too many homes: those go that were silent longest.
  for (let i = 0; i < 25_000; i++) marks.note(`home ${i}`, `home ${i}`, 5_000 + i, String(5_000 + i))
  expect(between(marks, "1", -1, 4_990)).toEqual([])
  expect(between(marks, "home 24999", -1, 40_000)).toEqual([["home 24999", "29999"]])
})

test("marks of all homes together have a bound", () => {
  const marks = new MessageMarks(1_000)
  for (let i = 0; i < 5_000; i++) marks.note(`home ${i % 50}`, `home ${i % 50}`, i, String(i))
  expect(marks.count).toBeLessThanOrEqual(1_000)
  expect(between(marks, "home 49", -1, 5_000)).toEqual([["home 49", "4999"]])
})
