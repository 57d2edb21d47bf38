import { expect, test } from "vitest"
import { AddressBudget } from "./address-budget.ts"

const holder = (net: number, group: number) => `2001:db8:${net.toString(16)}:${group.toString(16)}::/64`

test("a /56 gets four times as much as a /64, a /48 sixteen times, and another /48 its own", () => {
  const budget = new AddressBudget(Infinity, 2)
  const taken = (net: number, groups: number[]) => groups.filter(group => budget.take(holder(net, group), 1)).length
  const each = (count: number, from: number, step: number) => Array.from({ length: count }, (_, i) => from + i * step)
  expect(taken(1, [7, 7, 7])).toBe(2)
  // Seven takes of one /64 that are refused leave the others theirs.
  expect(taken(1, each(7, 7, 0))).toBe(0)
  expect(taken(1, each(200, 8, 1))).toBe(8 - 2)
  expect(taken(1, each(250, 0x100, 0x100))).toBe(32 - 8)
  expect(taken(2, each(250, 0x100, 0x100))).toBe(32)
  const refused = holder(1, 0x100)
  // What was refused for the /48 is not held by the /64 or the /56.
  budget.give(holder(1, 0x200), 1)
  expect(taken(1, [0x2300, 0x2300])).toBe(1)
  budget.give(refused, 1)
  expect(taken(1, [0x2400, 0x2400])).toBe(1)
})

test("of what all share, a /56 or a /48 gets a quarter at most, but never less than a /64", () => {
  const budget = new AddressBudget(64, 10)
  const each = (step: number) => Array.from({ length: 40 }, (_, i) => (i + 1) * step)
  const taken = (net: number, groups: number[]) => groups.filter(group => budget.take(holder(net, group), 1)).length
  expect(taken(1, each(1))).toBe(16)
  expect(taken(2, each(0x100))).toBe(16)
  expect(budget.take(holder(1, 0x4000), 1)).toBe(false)
  // What is left is there for the others.
  expect(budget.take("192.0.2.1", 10)).toBe(true)
  const ample = new AddressBudget(64, 40)
  expect([ample.take(holder(1, 1), 40), ample.take(holder(1, 2), 1)]).toEqual([true, false])
})

test("an IPv4 address has its own part, beside any number of others", () => {
  const budget = new AddressBudget(100, 2)
  const addresses = Array.from({ length: 50 }, (_, i) => `192.0.2.${i}`)
  for (const address of addresses) {
    expect([budget.take(address, 2), budget.take(address, 1)]).toEqual([true, false])
  }
  // There is nothing left.
  expect(budget.take(holder(1, 1), 1)).toBe(false)
  budget.give(addresses[0]!, 2)
  expect(budget.take(holder(1, 1), 2)).toBe(true)
})
