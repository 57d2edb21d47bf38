import { expect, test } from "vitest"
import { oneAtATime } from "./one-at-a-time.ts"

test("callers in between share the run that begins after they asked; a failure is of those who shared it", async () => {
  const begun: string[] = []
  const ends: (() => void)[] = []
  const ask = oneAtATime(async key => {
    const at = begun.push(key)
    await new Promise<void>(resolve => ends.push(resolve))
    if (at === 2) throw new Error("second")
    return at
  })
  const first = ask("a")
  const later = [ask("a"), ask("a")]
  expect(begun).toEqual(["a"])
  ends.shift()!()
  expect(await first).toBe(1)
  await expect.poll(() => begun).toEqual(["a", "a"])
  const last = ask("a")
  const other = ask("b")
  expect(begun).toEqual(["a", "a", "b"])
  ends.shift()!()
  expect((await Promise.allSettled(later)).map(({ status }) => status)).toEqual(["rejected", "rejected"])
  await expect.poll(() => begun).toEqual(["a", "a", "b", "a"])
  for (const end of ends) end()
  expect(await Promise.all([other, last])).toEqual([3, 4])
})
