import fc from "fast-check"
import { expect, test } from "vitest"
import { Shard } from "./shard.ts"

const open = () =>
  new Shard({ number: 1, epoch: 1, lastId: undefined, lastRow: 0, positions: new Map(), interests: [] })

const step = fc.record({
  act: fc.constantFrom("add", "remove", "commit"),
  home: fc.constantFrom("1", "2", "3"),
  worker: fc.constantFrom("a", "b", "c"),
})

test("what homes share of their interest, each has for itself", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), steps => {
      const shard = open()
      const model = new Map<string, Map<string, number>>()
      const heard: string[] = []
      const expected: string[] = []
      shard.onInterestChanged(home => heard.push(home))
      for (const { act, home, worker } of steps) {
        const mine = model.get(home) ?? new Map<string, number>()
        if (act === "commit") shard.commitRow(shard.nextRow())
        else if (act === "add") {
          shard.addInterest(home, worker)
          if (mine.size === 0) expected.push(home)
          if (!mine.has(worker)) model.set(home, mine.set(worker, shard.committedRow))
        } else {
          expect(shard.removeInterest(home, worker)).toBe(mine.delete(worker))
          if (mine.size === 0 && model.delete(home)) expected.push(home)
        }
        expect(shard.interests).toEqual(model)
      }
      expect(heard).toEqual(expected)
      const all = [...model].flatMap(([home, workers]) =>
        [...workers].map(([worker, from]) => ({ home, worker, from })),
      )
      expect(shard.allInterests()).toEqual(all)
    }),
  )
})

test("users that one worker takes since the same row share what says so", () => {
  const shard = open()
  shard.addInterest("1", "a")
  shard.addInterest("2", "b")
  shard.addInterest("3", "a")
  expect(shard.interests.get("3")).toBe(shard.interests.get("1"))
  shard.addInterest("3", "b")
  expect(shard.interests.get("1")).toEqual(new Map([["a", 0]]))
  shard.removeInterest("3", "b")
  expect(shard.interests.get("3")).toBe(shard.interests.get("1"))
})
