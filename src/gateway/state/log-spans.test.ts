import { expect, test } from "vitest"
import { belongs, keptSpans, moveOf, segmentsFrom, locate, type Span } from "./log-spans.ts"

const lived = (log: string, lo: number, since: number, cuts?: Record<string, number>): Span => ({
  log,
  lo,
  hi: null,
  counted: false,
  since,
  ...(cuts && { cuts }),
})
const counted = (log: string, lo: number, hi: number, since: number, cuts?: Record<string, number>): Span => ({
  log,
  lo,
  hi,
  counted: true,
  since,
  ...(cuts && { cuts }),
})

/**
 * Lived on a from 100, moved to b (where 2000 stands for a's 100 and up to 900 pieces follow it),
 * then to c.
 */
const onB = [lived("a", 100, 100), counted("a", 2000, 2900, 100), lived("b", 2901, 2900, { home: 7 })]
const onC = [...onB, counted("b", 5000, 5500, 2900, { home: 7 }), lived("c", 5501, 5500, { home: 9 })]
const cuts = new Map([["home", 11]])
const start = (spans: readonly Span[], seq: number) => locate(spans, seq)!
/**
 * Where a session lived, `seq` is the position in the log; where it moved to, only the log can
 * tell.
 */
const segments = (spans: readonly Span[], seq: number, position = seq) =>
  segmentsFrom(spans, start(spans, seq), position, cuts)
const names = (spans: readonly Span[], seq: number, position?: number) =>
  segments(spans, seq, position).map(segment => [segment.log, segment.start])

test("a position is located in the latest slice that begins at or before it", () => {
  expect(locate(onB, 99)).toBeUndefined()
  expect(locate(onB, 100)).toBe(onB[0])
  expect(locate(onB, 1999)).toBe(onB[0])
  expect(locate(onB, 2000)).toBe(onB[1])
  expect(locate(onB, 2900)).toBe(onB[1])
  expect(locate(onB, 2901)).toBe(onB[2])
  // Between a range that is used up and what comes after it nothing was given out.
  expect(locate([counted("a", 2000, 2900, 100), lived("b", 4000, 3999)], 3000)).toBeUndefined()
})

test("the move of a position is that of the logs that are read again with it, from where it began", () => {
  const two = [
    lived("a", 100, 100),
    counted("a", 2000, 2900, 100),
    counted("b", 3000, 3900, 50),
    lived("c", 3901, 3900),
  ]
  const move = (spans: readonly Span[], seq: number) => moveOf(spans, locate(spans, seq)!)
  expect(move(two, 150).segments).toBe(0)
  expect(move(two, 2500)).toEqual({ segments: 2, begins: 2000 })
  expect(move(two, 3500)).toEqual({ segments: 1, begins: 2000 })
  expect(move(two, 4000).segments).toBe(0)
  expect(move(onC, 2500)).toEqual({ segments: 1, begins: 2000 })
  expect(move(onC, 5100)).toEqual({ segments: 1, begins: 5000 })
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
  expect(names(onB, 2500, 600)).toEqual([
    ["a", 600],
    ["b", 2900],
  ])
  expect(names(onC, 5100, 3001)).toEqual([
    ["b", 3001],
    ["c", 5500],
  ])
})

test("from the middle of a replay of two logs the second is walked, too", () => {
  // Resumed on c with a position of a's: both a and b are mapped there.
  const both = [
    ...onB,
    counted("a", 5000, 5900, 100),
    counted("b", 5901, 6400, 2900, { home: 7 }),
    lived("c", 6401, 6400, { home: 9 }),
  ]
  expect(names(both, 5500, 600)).toEqual([
    ["a", 600],
    ["b", 2900],
    ["c", 6400],
  ])
  // From the second item on, the first one is passed.
  expect(names(both, 6000, 3000)).toEqual([
    ["b", 3000],
    ["c", 6400],
  ])
  // What was read for a later move is of no use to who stopped before it: those logs are walked as
  // where it lived.
  expect(names(both, 150)).toEqual([
    ["a", 150],
    ["b", 2900],
    ["c", 6400],
  ])
  const onD = [...both, counted("c", 7000, 7900, 6400, { home: 9 }), lived("d", 7901, 7900, { home: 10 })]
  expect(names(onD, 5500, 600)).toEqual([
    ["a", 600],
    ["b", 2900],
    ["c", 6400],
    ["d", 7900],
  ])
  const middle = segments(onD, 5500, 600)
  expect(middle.map(segment => [segment.after?.get("home"), segment.until.get("home")])).toEqual([
    [undefined, 7],
    [7, 9],
    [9, 10],
    [10, 11],
  ])
})

test("every row of a home belongs to exactly one segment of the walk", () => {
  const walk = segments(onC, 150)
  for (let row = 1; row <= 11; row++)
    expect([row, walk.filter(segment => belongs(segment, "home", row)).length]).toEqual([row, 1])
  // What is above the last cut comes from the log that the session goes on in; a home that is not
  // held any more from none.
  expect(walk.some(segment => belongs(segment, "home", 12))).toBe(false)
  expect(walk.some(segment => belongs(segment, "other", 1))).toBe(false)
})

test("a session that came back finds that worker's log among the others", () => {
  const back = [...onB, counted("b", 5000, 5500, 2900, { home: 7 }), lived("a", 5501, 5500, { home: 9 })]
  expect(names(back, 150)).toEqual([
    ["a", 150],
    ["b", 2900],
    ["a", 5500],
  ])
})

test("of many stretches those are let go that the client cannot have seen, and the oldest", () => {
  const moved = Array.from({ length: 60 }, (_, i) => [
    counted("a", i * 1000, i * 1000 + 499, 0),
    lived("b", i * 1000 + 500, i * 1000 + 499),
  ]).flat()
  expect(keptSpans(moved.slice(0, 100), 0)).toEqual(moved.slice(0, 100))
  // 50 moves are behind the client: of the ten ahead only where it lived is kept.
  const kept = keptSpans(moved, 49_700)
  expect(kept).toEqual(moved.filter(({ counted: isCounted, lo }) => !isCounted || lo <= 49_700).slice(-100))
  expect(kept).toHaveLength(100)
  expect(kept.filter(({ counted: isCounted, lo }) => isCounted && lo > 49_700)).toEqual([])
  expect(locate(kept, 49_700)).toBe(locate(moved, 49_700))
  expect(names(kept, 49_700)).toEqual(names(moved, 49_700))
})
