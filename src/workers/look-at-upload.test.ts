import { expect, test } from "vitest"
import { FairPlaces } from "../std/fair-places.ts"
import { inTurn } from "./look-at-upload.ts"
import type { JobTools } from "./processor.ts"

test("what says that it is long is done again as such, and the others go on meanwhile", async () => {
  const pictures = { places: new FairPlaces(2, 3) }
  const tools = { pictures, signal: new AbortController().signal } as unknown as JobTools
  const [tried, begun]: [string[], string[]] = [[], []]
  let release = () => {}
  const released = new Promise<void>(resolve => (release = resolve))
  const long = (holder: string) =>
    inTurn(tools, holder, true, async isLong => {
      if (!isLong) {
        tried.push(holder)
        return "long"
      }
      begun.push(holder)
      await released
      return holder
    })
  const all = ["ada", "lin"].map(long)
  await new Promise(resolve => setImmediate(resolve))
  expect([tried, begun]).toEqual([["ada", "lin"], ["ada"]])
  for (const holder of ["eve", "lin"]) expect(await inTurn(tools, holder, true, async () => holder)).toBe(holder)
  expect(begun).toEqual(["ada"])
  release()
  expect(await Promise.all(all)).toEqual(["ada", "lin"])
})
