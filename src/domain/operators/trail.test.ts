import { expect, test } from "vitest"
import { cut, keptInput, maxTrailBytes, trailText } from "./trail.ts"

test("only what a route keeps is kept, and no secret even then", () => {
  const body = { reason: "spam", password: "p", new_password: "p", code: "1", note: "n", duration_seconds: 60 }
  expect(keptInput({ keeps: ["reason", "duration_seconds", "password", "code", "nothing"] }, undefined, body)).toEqual({
    reason: "spam",
    duration_seconds: 60,
  })
  expect(keptInput({ keeps: [] }, body)).toEqual({})
  const nested = { ai: { openai: { api_key: "k", model: "m" } }, list: [{ token: "t", id: 1 }] }
  expect(JSON.parse(trailText(nested))).toEqual({
    ai: { openai: { api_key: "********", model: "m" } },
    list: [{ token: "********", id: 1 }],
  })
})

test("an entry is bounded, however much was sent", () => {
  expect(cut("🙂".repeat(200))).toBe(`${"🙂".repeat(99)}…`)
  const wide = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`key ${i}`, "x".repeat(1_000)]))
  let deep: unknown = 1
  for (let i = 0; i < 10_000; i++) deep = [deep]
  for (const facts of [wide, { deep }, { text: "é".repeat(100_000) }, { wide: Array(50).fill(wide) }]) {
    const text = trailText(facts)
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(maxTrailBytes)
    expect(() => JSON.parse(text) as unknown).not.toThrow()
  }
})
