import { expect, test } from "vitest"
import { isCopied, passkeyPlace } from "./passkeys.ts"

test("PASS1: a counter that does not rise is a copy's, unless neither counts", () => {
  expect(isCopied({ counter: 0 }, { counter: 0 })).toBe(false)
  expect(isCopied({ counter: 0 }, { counter: 1 })).toBe(false)
  expect(isCopied({ counter: 7 }, { counter: 8 })).toBe(false)
  for (const counter of [7, 6, 0]) expect(isCopied({ counter: 7 }, { counter })).toBe(true)
})

test("passkeys belong to the name of the server or one above it; without a name or encryption there are none", () => {
  const none = { passkey_origins: [] }
  expect(passkeyPlace("https://app.chat.example", none)).toEqual({
    rpId: "app.chat.example",
    origins: ["https://app.chat.example"],
  })
  const apps = { passkey_rp_id: "chat.example", passkey_origins: ["android:apk-key-hash:x"] }
  expect(passkeyPlace("https://app.chat.example/path", apps)).toEqual({
    rpId: "chat.example",
    origins: ["https://app.chat.example", "android:apk-key-hash:x"],
  })
  expect(passkeyPlace("http://localhost:8000", none)?.rpId).toBe("localhost")
  for (const url of ["http://chat.example", "https://127.0.0.1", "http://[::1]:8000", "https://10.0.0.7:8443"])
    expect(passkeyPlace(url, none)).toBeUndefined()
  expect(passkeyPlace("https://chat.example", { ...none, passkey_rp_id: "hat.example" })).toBeUndefined()
})
