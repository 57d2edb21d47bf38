import { expect, test } from "vitest"
import { InStep } from "./in-step.ts"

/** Time that passes when it is told to, and the wake-ups in it. */
function timeline() {
  let now = 10_250
  let waiting: { at: number; action: () => void } | undefined
  const errors: unknown[] = []
  const wakeUps: number[] = []
  const inStep = new InStep({
    now: () => now,
    wait(milliseconds, action) {
      expect(waiting).toBeUndefined() // one timer
      const mine = (waiting = { at: now + milliseconds, action })
      return {
        stop() {
          if (waiting === mine) waiting = undefined
        },
      }
    },
    onError: error => errors.push(error),
  })
  function wake(): void {
    const { action } = waiting!
    waiting = undefined
    wakeUps.push(now)
    action()
  }
  return {
    inStep,
    wakeUps,
    errors,
    isAsleep: () => waiting === undefined,
    /** The timer will not come. */
    lose: () => (waiting = undefined),
    /** Something keeps the process busy. */
    busy: (milliseconds: number) => (now += milliseconds),
    passes(milliseconds: number, lateMs = 0) {
      const end = now + milliseconds
      while (waiting && Math.max(waiting.at, now) <= end) {
        now = Math.max(waiting.at, now) + lateMs
        wake()
      }
      now = Math.max(end, now)
    },
    /** A timer comes before its time by the finer clock. */
    wakeEarly(byMs: number) {
      now = waiting!.at - byMs
      wake()
    },
  }
}

test("what has periods in common is done in one wake-up, whenever each began", () => {
  const { inStep, wakeUps, busy, passes } = timeline()
  const done: string[] = []
  inStep.every(1_000, () => done.push("second"))
  busy(3)
  inStep.every(500, () => done.push("half"))
  busy(120)
  inStep.every(500, () => done.push("other half"))
  passes(2_000)
  expect(wakeUps).toEqual([10_500, 11_000, 11_500, 12_000])
  const halves = ["half", "other half"]
  const all = ["second", ...halves]
  expect(done).toEqual([...halves, ...all, ...halves, ...all])
})

test("each is done for the first time after its period at the latest, and then neither drifts nor is done twice", () => {
  const { inStep, wakeUps, passes } = timeline()
  let times = 0
  inStep.every(500, () => times++)
  passes(500, 0.4)
  expect(times).toBe(1)
  // Each wake-up is late. The lateness does not add up.
  passes(100_000, 7.3)
  expect(times).toBe(201)
  expect(wakeUps).toHaveLength(201)
  for (const at of wakeUps.slice(1)) expect(at % 500).toBeLessThan(7.3 + 1)
})

test("after a pause of the process each is done once, what was due first before the others, and goes on in step", () => {
  const { inStep, busy, passes } = timeline()
  const done: string[] = []
  inStep.every(1_000, () => done.push("second"))
  inStep.every(300, () => done.push("third"))
  busy(5_010)
  passes(0)
  expect(done).toEqual(["third", "second"])
  passes(1_000)
  expect(done.filter(name => name === "second")).toHaveLength(2)
  expect(done.filter(name => name === "third")).toHaveLength(5)
})

test("what is stopped is not done any more, also when it is due beside the one that stops it", () => {
  const { inStep, passes, isAsleep } = timeline()
  const done: string[] = []
  const timers = [
    inStep.every(500, () => {
      done.push("first")
      timers[1]!.stop()
      timers[2]!.stop()
    }),
    inStep.every(500, () => done.push("second")),
    inStep.every(1_000, () => done.push("third")),
    inStep.every(500, () => done.push("fourth")),
  ]
  passes(1_000)
  expect(done).toEqual(["first", "fourth", "first", "fourth"])
  // One that stops itself, and nothing is left.
  timers[0]!.stop()
  const last = inStep.every(500, () => {
    done.push("last")
    last.stop()
  })
  timers[3]!.stop()
  passes(2_000)
  expect(done.slice(4)).toEqual(["last"])
  expect(isAsleep()).toBe(true)
})

test("one that is begun by another is done from its next moment on", () => {
  const { inStep, passes } = timeline()
  const done: number[] = []
  let inner = 0
  inStep.every(500, () => {
    if (inner++ === 0) inStep.every(250, () => done.push(inner))
  })
  passes(250)
  expect(done).toEqual([])
  passes(250)
  expect(done).toEqual([1])
  passes(250)
  expect(done).toEqual([1, 2])
})

test("one that throws stops neither the others nor itself", () => {
  const { inStep, errors, passes } = timeline()
  let others = 0
  inStep.every(500, () => {
    throw new Error("no")
  })
  inStep.every(500, () => others++)
  passes(2_000)
  expect(others).toBe(4)
  expect(errors.map(error => (error as Error).message)).toEqual(["no", "no", "no", "no"])
})

test("a timer that comes a little early is in time, and what it does is not done again", () => {
  const { inStep, wakeEarly, wakeUps, passes } = timeline()
  let times = 0
  inStep.every(500, () => times++)
  wakeEarly(0.7)
  expect(times).toBe(1)
  wakeEarly(0.7)
  expect(times).toBe(2)
  passes(501)
  expect(times).toBe(3)
  expect(wakeUps).toHaveLength(3)
})

test("a timer that was lost is made again when the next begins", () => {
  const { inStep, lose, busy, passes } = timeline()
  const done: string[] = []
  inStep.every(500, () => done.push("first"))
  lose()
  busy(2_000)
  expect(done).toEqual([])
  inStep.every(1_000, () => done.push("second"))
  passes(750)
  expect(done).toEqual(["first", "first", "first", "second"])
})
