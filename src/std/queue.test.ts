import { expect, test } from "vitest"
import { Queue } from "./queue.ts"

test("it holds what an array would, whatever is pushed and taken out", () => {
  const queue = new Queue<number>()
  const model: number[] = []
  let seed = 7
  for (let i = 0; i < 5_000; i++) {
    seed = (seed * 48_271) % 2_147_483_647
    // It grows and shrinks in turns, and is empty at times.
    if (seed % 100 < (i % 1_000 < 500 ? 60 : 30)) {
      queue.push(i)
      model.push(i)
    } else expect(queue.shift()).toBe(model.shift())
    expect(queue.length).toBe(model.length)
    if (i % 250 > 0) continue
    expect(queue.slice(0)).toEqual(model)
    expect(queue.slice(2, 5)).toEqual(model.slice(2, 5))
    for (const [place, item] of model.entries()) expect(queue.at(place)).toBe(item)
  }
})
