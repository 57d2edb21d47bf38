import { expect, test } from "vitest"
import { belongs, legsFrom, locate, type Span } from "./journey.ts"

const lived = (log: string, lo: number, since: number, cuts?: Record<string, number>): Span => ({
  log,
  lo,
  hi: null,
  offset: 0,
  since,
  ...(cuts && { cuts }),
})
const mapped = (
  log: string,
  lo: number,
  hi: number,
  offset: number,
  since: number,
  cuts?: Record<string, number>,
): Span => ({ log, lo, hi, offset, since, ...(cuts && { cuts }) })

/** Lived on a from 100, moved to b (where 2000 to 2900 stand for a's 100 to 1000), then to c. */
const onB = [lived("a", 100, 100), mapped("a", 2000, 2900, 1900, 100), lived("b", 2901, 2900, { home: 7 })]
const onC = [...onB, mapped("b", 5000, 5500, 2099, 2900, { home: 7 }), lived("c", 5501, 5500, { home: 9 })]
const cuts = new Map([["home", 11]])
const start = (spans: readonly Span[], seq: number) => locate(spans, seq)!
const names = (spans: readonly Span[], seq: number) =>
  legsFrom(spans, start(spans, seq), cuts).map(leg => [leg.log, leg.start])

test("a position is located in the latest stretch that begins at or before it", () => {
  expect(locate(onB, 99)).toBeUndefined()
  expect(locate(onB, 100)).toEqual({ span: onB[0], position: 100 })
  expect(locate(onB, 1999)).toEqual({ span: onB[0], position: 1999 })
  expect(locate(onB, 2000)).toEqual({ span: onB[1], position: 100 })
  expect(locate(onB, 2900)).toEqual({ span: onB[1], position: 1000 })
  expect(locate(onB, 2901)).toEqual({ span: onB[2], position: 2901 })
  // Between a range that is used up and what comes after it nothing was given out.
  expect(locate([mapped("a", 2000, 2900, 1900, 100), lived("b", 4000, 3999)], 3000)).toBeUndefined()
})

test("the walk begins where the client stopped and goes through every log it lived on since", () => {
  expect(names(onC, 150)).toEqual([
    ["a", 150],
    ["b", 2900],
    ["c", 5500],
  ])
  expect(names(onC, 3000)).toEqual([
    ["b", 3000],
    ["c", 5500],
  ])
  expect(names(onC, 6000)).toEqual([["c", 6000]])
})

test("from the middle of a replay it goes on there, in the old log's own positions", () => {
  expect(names(onB, 2500)).toEqual([
    ["a", 600],
    ["b", 2900],
  ])
  expect(names(onC, 5100)).toEqual([
    ["b", 3001],
    ["c", 5500],
  ])
})

test("from the middle of a replay of two logs the second is walked, too", () => {
  // Resumed on c with a position of a's: both a and b are mapped there.
  const both = [
    ...onB,
    mapped("a", 5000, 5900, 4900, 100),
    mapped("b", 5901, 6400, 3000, 2900, { home: 7 }),
    lived("c", 6401, 6400, { home: 9 }),
  ]
  expect(names(both, 5500)).toEqual([
    ["a", 600],
    ["b", 2900],
    ["c", 6400],
  ])
})

test("every row of a home belongs to exactly one leg of the walk", () => {
  const legs = legsFrom(onC, start(onC, 150), cuts)
  for (let row = 1; row <= 11; row++)
    expect([row, legs.filter(leg => belongs(leg, "home", row)).length]).toEqual([row, 1])
  // What is above the last cut comes from the log that the session goes on in; a home that is not held any more from none.
  expect(legs.some(leg => belongs(leg, "home", 12))).toBe(false)
  expect(legs.some(leg => belongs(leg, "other", 1))).toBe(false)
})

test("a session that came back finds that worker's log among the others", () => {
  const back = [...onB, mapped("b", 5000, 5500, 2099, 2900, { home: 7 }), lived("a", 5501, 5500, { home: 9 })]
  expect(names(back, 150)).toEqual([
    ["a", 150],
    ["b", 2900],
    ["a", 5500],
  ])
})
