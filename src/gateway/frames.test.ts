import { decode, encode } from "@msgpack/msgpack"
import { describe, expect, test } from "vitest"
import { opcodes } from "../contract/gateway-codes.ts"
import { Frame, FrameRefused, plainFrame, readFrame, type Encoding } from "./frames.ts"

const bytes = (text: string | Uint8Array): ArrayBuffer => {
  const view = typeof text === "string" ? new TextEncoder().encode(text) : text
  return view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength) as ArrayBuffer
}
function closeOf(
  message: string | Uint8Array,
  { binary = false, encoding = "json", max = 65_536 }: { binary?: boolean; encoding?: Encoding; max?: number } = {},
) {
  try {
    return readFrame(bytes(message), binary, encoding, max)
  } catch (error) {
    if (error instanceof FrameRefused) return error.close
    throw error
  }
}

describe("a frame that is not understood says why", () => {
  test.each([
    ["no JSON", "{", "decode_error"],
    ["nothing", "", "decode_error"],
    ["an array", "[]", "decode_error"],
    ["a string", '"op"', "decode_error"],
    ["a number", "7", "decode_error"],
    ["true", "true", "decode_error"],
    ["no op", "{}", "decode_error"],
    ["op null", '{"op":null}', "decode_error"],
    ["op a string", '{"op":"1"}', "unknown_opcode"],
    ["op a fraction", '{"op":1.5}', "unknown_opcode"],
    ["op negative", '{"op":-1}', "unknown_opcode"],
    ["op huge", '{"op":1e308}', "unknown_opcode"],
    ["op an object", '{"op":{}}', "unknown_opcode"],
    ["op unknown", '{"op":99}', "unknown_opcode"],
    ...[0, 7, 9, 10, 11, 12].map(op => [`op ${op}, the server's`, `{"op":${op}}`, "unknown_opcode"]),
  ])("%s", (_, text, close) => expect(closeOf(text)).toBe(close))
  test("null is ignored", () => expect(closeOf("null")).toBeUndefined())
  test("bytes that are not UTF-8", () => {
    expect(closeOf(Uint8Array.of(0x7b, 0xff, 0x7d))).toBe("decode_error")
  })
})

test("the size is that of the bytes, and the limit is inclusive", () => {
  const frame = `{"op":1,"d":"${"é".repeat(500)}"}`
  const size = Buffer.byteLength(frame)
  expect(size).toBeGreaterThan(frame.length)
  expect(closeOf(frame, { max: size })).toMatchObject({ op: "HEARTBEAT" })
  expect(closeOf(frame, { max: size - 1 })).toBe("decode_error")
})

test("binary is MessagePack on such a connection and JSON on any other; text is always JSON", () => {
  const frame = { op: 1, d: 5 }
  const read = { op: "HEARTBEAT", d: 5 }
  expect(closeOf(encode(frame), { binary: true, encoding: "msgpack" })).toEqual(read)
  expect(closeOf(JSON.stringify(frame), { binary: true })).toEqual(read)
  expect(closeOf(JSON.stringify(frame), { encoding: "msgpack" })).toEqual(read)
  expect(closeOf(encode(frame), { binary: true })).toBe("decode_error")
  expect(closeOf(Uint8Array.of(0xc1), { binary: true, encoding: "msgpack" })).toBe("decode_error")
  expect(closeOf(encode([1]), { binary: true, encoding: "msgpack" })).toBe("decode_error")
})

test("only heartbeats, IDENTIFY and RESUME may come before IDENTIFY", () => {
  const early = Object.entries(opcodes).filter(([, { from, beforeIdentify }]) => from === "client" && beforeIdentify)
  expect(early.map(([name]) => name)).toEqual(["HEARTBEAT", "IDENTIFY", "RESUME"])
})

test("a dispatch has its keys in order and says the same in both encodings", () => {
  const s = 2 ** 53 - 1
  const frame = new Frame("MESSAGE_CREATE", s, '{"content":"é 🐦","n":null}')
  expect(frame.in("json")).toBe(`{"op":0,"t":"MESSAGE_CREATE","s":${s},"d":{"content":"é 🐦","n":null}}`)
  expect(decode(frame.in("msgpack") as Uint8Array)).toEqual(JSON.parse(frame.in("json") as string))
  expect(frame.in("json")).toBe(frame.in("json"))
  expect(frame.in("msgpack")).toBe(frame.in("msgpack"))
})

test("a frame that is no dispatch carries op and d only", () => {
  expect(plainFrame("json", "HEARTBEAT_ACK")).toBe('{"op":11}')
  expect(plainFrame("json", "INVALID_SESSION", false)).toBe('{"op":9,"d":false}')
  expect(decode(plainFrame("msgpack", "RECONNECT", null) as Uint8Array)).toEqual({ op: 7, d: null })
})
