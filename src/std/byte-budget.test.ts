import { expect, test } from "vitest"
import { ByteBudget } from "./byte-budget.ts"

test("a holder gets no more than its share, and all of them no more than there is", () => {
  const budget = new ByteBudget(10, 6)
  expect([budget.take("a", 6), budget.take("a", 1), budget.take("b", 5), budget.take("b", 4)]).toEqual([
    true,
    false,
    false,
    true,
  ])
  budget.give("a", 2)
  expect([budget.take("c", 3), budget.take("c", 2)]).toEqual([false, true])
})
