import { describe, expect, it } from "vitest"
import { focusIn, isValueTooLong, keyRefusal } from "./settings.ts"

describe("a setting", () => {
  it("has a key of so many characters that is nobody else's", () => {
    for (const key of ["theme", "a".repeat(100), "🧪".repeat(100), "__proto__", "constructor", "_internal", "Bulk"])
      expect(keyRefusal(key)).toBeUndefined()
    for (const key of ["a".repeat(101), "🧪".repeat(101), `__internal${"x".repeat(100)}`])
      expect(keyRefusal(key)).toBe("setting_key_too_long")
    for (const key of ["bulk", "__internal", "__internal_flags"]) expect(keyRefusal(key)).toBe("setting_key_reserved")
  })

  it("has a value of so many characters", () => {
    expect([isValueTooLong("🧪".repeat(10_000)), isValueTooLong("🧪".repeat(10_001))]).toEqual([false, true])
  })
})

describe("a focus", () => {
  it("names a channel and a server, or none", () => {
    expect(focusIn('{"channel_id":"7","server_id":"3"}')).toEqual({ isCleared: false })
    expect(focusIn('{"channel_id":"7","server_id":null}')).toEqual({ isCleared: false })
    expect(focusIn('{"channel_id":"0","server_id":"0"}')).toEqual({ isCleared: true })
    for (const text of ["", "7", "null", "[]", "{", '{"channel_id":7,"server_id":"3"}', '{"server_id":"3"}'])
      expect(focusIn(text)).toBeUndefined()
  })
})
