import { expect, test } from "vitest"
import { requestedOrigin } from "./public-host.ts"

const nothing = { host: "", forwardedHost: "", forwardedProto: "" }

test("the origin is that of the request; only a proxy is believed about another", () => {
  const direct = { ...nothing, host: "Chat.example:8000" }
  expect(requestedOrigin(direct, false)).toBe("ws://chat.example:8000")
  const forwarded = { host: "10.0.0.7:8000", forwardedHost: "chat.example, inner.example", forwardedProto: "https" }
  expect(requestedOrigin(forwarded, true)).toBe("wss://chat.example")
  expect(requestedOrigin(forwarded, false)).toBe("ws://10.0.0.7:8000")
  // A proxy that passes Host on and says nothing more.
  expect(requestedOrigin({ ...direct, forwardedProto: "https" }, true)).toBe("wss://chat.example:8000")
  expect(requestedOrigin({ ...nothing, host: "[2001:db8::1]:8000" }, false)).toBe("ws://[2001:db8::1]:8000")
})

test.each([
  "",
  "chat.example/path",
  "ada@chat.example",
  "chat.example:port",
  "chat.example:99999",
  'chat".example',
  "chat example",
  "-chat.example",
  "[::1",
  "[1:2:3]",
  "a".repeat(300),
])("what is no host is not said back: %s", host => {
  expect(requestedOrigin({ ...nothing, host }, false)).toBeUndefined()
  expect(requestedOrigin({ ...nothing, host: host || "a/b", forwardedHost: host }, true)).toBeUndefined()
})
