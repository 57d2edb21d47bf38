import { setImmediate } from "node:timers/promises"
import { expect, test } from "vitest"
import { TurnBudget } from "./turn-budget.ts"

test("a turn takes what fits, in order; the rest goes on in the next turns", async () => {
  const budget = new TurnBudget(10)
  const done: number[] = []
  for (let i = 0; i < 6; i++) budget.do(() => (done.push(i), 4))
  expect(done).toEqual([0, 1, 2]) // the third began while 2 were left
  await setImmediate()
  expect(done).toEqual([0, 1, 2, 3, 4, 5])
  await setImmediate()
  await setImmediate()
  budget.do(() => (done.push(6), 1))
  expect(done.at(-1)).toBe(6)
})

test("tasks that add themselves again take turns, and each turn is bounded", async () => {
  const budget = new TurnBudget(10)
  let turn = 0
  const byTurn: string[][] = []
  const left = { a: 20, b: 20 }
  const step = (name: "a" | "b") => () => {
    ;(byTurn[turn] ??= []).push(name)
    if (--left[name] > 0) budget.do(step(name))
    return 2
  }
  budget.do(step("a"))
  budget.do(step("b"))
  for (; left.a + left.b > 0 && turn < 100; turn++) await setImmediate()
  expect(left).toEqual({ a: 0, b: 0 })
  // Its turn may come before and after this test's.
  expect(Math.max(...byTurn.map(names => names.length))).toBeLessThanOrEqual(10)
  // They take turns once both are there.
  const order = byTurn.flat()
  expect(order.lastIndexOf("a") - order.lastIndexOf("b")).toBeGreaterThan(-15)
})

test("those who wait for budget have it in order, as much in each turn as there is", async () => {
  const budget = new TurnBudget(10)
  const done: number[] = []
  for (let i = 0; i < 5; i++)
    budget.turn(6).then(
      () => done.push(i),
      () => {},
    )
  await Promise.resolve().then(() => {})
  await setImmediate()
  expect(done.slice(0, 2)).toEqual([0, 1])
  for (let turn = 0; turn < 5; turn++) await setImmediate()
  expect(done).toEqual([0, 1, 2, 3, 4])
})
