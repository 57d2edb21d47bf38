import { expect, test } from "vitest"
import { usedBytes } from "../../../tests/kit/heap.ts"
import { newSession, wholeMs, type Session } from "./session.ts"

test("a session in ten servers takes at most 700 bytes of the heap beside the texts of its ids", () => {
  const guilds = Array.from({ length: 10 }, (_, n) => ({ view: { id: `${n}` }, roles: [], rules: {} }) as never)
  const clock = { monotonic: () => 1_234.567 }
  const cursor = 2 ** 50
  const count = 5_000
  const make = (): Session => {
    const spans = [{ log: "web-0", lo: cursor, hi: null, counted: false, since: cursor }]
    const seed = { id: "id", user: "1", accessSession: "2", intents: 1, encoding: "json" as const, cursor, spans }
    const session = newSession(seed, wholeMs(clock))
    for (const guild of guilds) session.guilds.put(guild)
    return session
  }
  const bytesOfOne = (): number => {
    const sessions: (Session | undefined)[] = Array.from({ length: count }, () => undefined)
    const before = usedBytes()
    for (let i = 0; i < count; i++) sessions[i] = make()
    const bytes = (usedBytes() - before) / count
    expect(sessions.every(session => session !== undefined)).toBe(true)
    return bytes
  }
  bytesOfOne()
  // Other tests of this process leave garbage, which may be collected between two looks.
  const rounds = Array.from({ length: 3 }, bytesOfOne).toSorted((a, b) => a - b)
  expect(rounds[1]).toBeLessThan(700)
})
