import { expect, test } from "vitest"
import { searchTurns } from "./search-turns.ts"

const bounds = { maxConcurrent: 2, waitingOfOne: 2, waiting: 4, withinMs: 1_000 }
const busy = { status: "rejected", reason: { code: "search_busy", details: { retry_after: 1 } } }

/** Searches that end when they are told to, by name. */
function scene() {
  let time = 0
  const turn = searchTurns(bounds, () => time)
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const settled = () => new Promise(resolve => setImmediate(resolve))
  return {
    begun,
    settled,
    pass: (milliseconds: number) => void (time += milliseconds),
    ask: (user: string, name: string) =>
      turn(user, () => {
        begun.push(name)
        return new Promise<string>(resolve => ends.set(name, () => resolve(name)))
      }),
    async end(name: string) {
      ends.get(name)!()
      await settled()
    },
  }
}

test("one user has one search under way, few waiting, and the others none the less", async () => {
  const { ask, begun, end, settled } = scene()
  const adas = ["a", "b", "c", "d", "e"].map(name => ask("ada", name))
  const refused = Promise.allSettled(adas.slice(3))
  const hers = ask("lin", "l")
  await settled()
  expect(begun).toEqual(["a", "l"])
  expect(await refused).toMatchObject([busy, busy])
  await end("a")
  expect(begun).toEqual(["a", "l", "b"])
  await end("b")
  await end("c")
  await end("l")
  expect(await Promise.all([...adas.slice(0, 3), hers])).toEqual(["a", "b", "c", "l"])
})

test("no more are under way than may be, no more wait than may, and a search that fails lets the next one begin", async () => {
  const { ask, begun, end, settled } = scene()
  const all = Array.from({ length: 7 }, (_, i) => ask(`user ${i}`, String(i)))
  const last = Promise.allSettled(all.slice(6))
  await settled()
  expect(begun).toEqual(["0", "1"])
  expect(await last).toMatchObject([busy])
  for (let i = 0; i < 6; i++) await end(String(i))
  expect(await Promise.all(all.slice(0, 6))).toEqual(["0", "1", "2", "3", "4", "5"])

  const turn = searchTurns({ ...bounds, maxConcurrent: 1 }, () => 0)
  const failing = turn("ada", () => Promise.reject(new Error("it fails")))
  const after = turn("lin", () => Promise.resolve("found"))
  await expect(failing).rejects.toThrow("it fails")
  expect(await after).toBe("found")
})

test("what has waited too long is refused and never begun", async () => {
  const { ask, begun, end, pass, settled } = scene()
  const [first, late] = [ask("ada", "first"), ask("ada", "late")]
  const outcome = Promise.allSettled([late])
  await settled()
  pass(1_000)
  await end("first")
  expect(await first).toBe("first")
  expect(await outcome).toMatchObject([busy])
  expect(begun).toEqual(["first"])
  // It waits no more.
  const another = ask("ada", "new")
  await settled()
  expect(begun).toEqual(["first", "new"])
  await end("new")
  expect(await another).toBe("new")
})
