import { expect, test } from "vitest"
import { eachConcurrently } from "./each-concurrently.ts"

test("no more run at once than may, each row is seen once, and a failure is thrown when the others are done", async () => {
  let running = 0
  let most = 0
  const seen: number[] = []
  const work = eachConcurrently([1, 2, 3, 4, 5, 6], 2, new AbortController().signal, async row => {
    most = Math.max(most, ++running)
    await new Promise(resolve => setTimeout(resolve, 1))
    running--
    seen.push(row)
    if (row === 2) throw new Error("row 2")
  })
  await expect(work).rejects.toThrow("row 2")
  expect(most).toBe(2)
  expect(seen.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6])
})

test("nothing new begins after the signal", async () => {
  const ending = new AbortController()
  const seen: number[] = []
  const work = eachConcurrently([1, 2, 3], 1, ending.signal, async row => {
    seen.push(row)
    ending.abort(new Error("over"))
  })
  await expect(work).rejects.toThrow("over")
  expect(seen).toEqual([1])
})
