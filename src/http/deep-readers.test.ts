import { expect, test } from "vitest"
import { DeepReaders } from "./deep-readers.ts"

test("who was let in reads on from there down, in that channel alone, until he is not", () => {
  const readers = new DeepReaders()
  readers.note("1", "9", "500")
  readers.note("1", "9", "400")
  const isDeep = (reader: string, channel: string, before: string) => readers.isDeep(reader, channel, before)
  expect([isDeep("1", "9", "500"), isDeep("1", "9", "99"), isDeep("1", "9", "501"), isDeep("1", "9", "1000")]).toEqual([
    true,
    true,
    false,
    false,
  ])
  expect([isDeep("2", "9", "400"), isDeep("1", "8", "400")]).toEqual([false, false])
  readers.forget("1", "9")
  expect(isDeep("1", "9", "400")).toBe(false)
})

test("so many are known, those who came last", () => {
  const readers = new DeepReaders(2)
  for (const reader of ["1", "2", "1", "3"]) readers.note(reader, "9", "5")
  expect(["1", "2", "3"].map(reader => readers.isDeep(reader, "9", "5"))).toEqual([true, false, true])
})
