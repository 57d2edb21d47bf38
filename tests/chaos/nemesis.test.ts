import { expect, test } from "vitest"
import { faults } from "./faults.ts"
import { planFaults } from "./nemesis.ts"
import { randomFrom } from "./random.ts"
import { planActs } from "./workload.ts"

const schedule = (seed: number, seconds: number) => planFaults(randomFrom(seed, "faults"), seconds * 1_000)

test("one seed makes one schedule and one load, another makes others", () => {
  expect(schedule(7, 300)).toEqual(schedule(7, 300))
  expect(schedule(7, 300)).not.toEqual(schedule(8, 300))
  const acts = (seed: number) => planActs(randomFrom(seed, "acts"), 10_000, 40)
  expect(acts(7)).toEqual(acts(7))
  expect(acts(7)).not.toEqual(acts(8))
  expect(acts(7).length).toBeGreaterThan(300)
})

test("a minute holds one of every fault that is not long, whatever the seed", () => {
  const long = faults.filter(fault => fault.long).map(({ name }) => name)
  for (let seed = 0; seed < 20; seed++) {
    const { main, side, left } = schedule(seed, 58)
    expect(left.toSorted()).toEqual(long.toSorted())
    expect(new Set(main.map(({ fault }) => fault)).size).toBe(main.length)
    for (const lane of [main, side])
      for (const [at, planned] of lane.entries()) {
        const before = lane[at - 1]
        if (before) expect(planned.at).toBe(before.at + before.hold + before.rest)
      }
  }
})

test("seven minutes hold every fault", () => {
  for (let seed = 0; seed < 20; seed++) expect(schedule(seed, 420).left).toEqual([])
})
