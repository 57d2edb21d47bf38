import { decode, encode } from "@msgpack/msgpack"
import { describe, expect, test } from "vitest"
import { opcodes } from "../../contract/core/gateway-codes.ts"
import { deflateSync, inflateRawSync, constants } from "node:zlib"
import { opened } from "./compression.ts"
import {
  Frame,
  FrameRefused,
  heartbeatAck,
  heartbeatIn,
  messageOf,
  plainFrame,
  readFrame,
  type Encoding,
  type PlainEncoding,
} from "./frames.ts"

const bytes = (text: string | Uint8Array): ArrayBuffer => {
  const view = typeof text === "string" ? new TextEncoder().encode(text) : text
  return view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength) as ArrayBuffer
}
function closeOf(
  message: string | Uint8Array,
  {
    binary = false,
    encoding = "json",
    max = 65_536,
  }: { binary?: boolean; encoding?: PlainEncoding; max?: number } = {},
) {
  try {
    const bounds = { maxBytes: max, maxInflatedBytes: 262_144 }
    return readFrame(messageOf(bytes(message), binary, bounds).bytes, binary, encoding)
  } catch (error) {
    if (error instanceof FrameRefused) return error.close
    throw error
  }
}

describe("a heartbeat in JSON is read without being parsed", () => {
  const read = (text: string) => heartbeatIn(bytes(text))
  test.each([null, 0, 7, 1_234_567, 7_340_000_000_000_000, Number.MAX_SAFE_INTEGER])("%s", d => {
    expect(read(JSON.stringify({ op: opcodes.HEARTBEAT.op, d }))).toBe(d)
  })
  test("whatever else is left to the parser, which may understand it", () => {
    const [good] = [`{"op":1,"d":1234}`]
    const others = ["", "{", `{"op":1}`, `{"d":1,"op":1}`, `{"op":1,"d":}`, `{"op":1,"d":nul}`, `{"op":1,"d":nulll}`]
    const numbers = ["-1", "1.5", "1e3", "007", "00", "true", `"1"`, "[1]", " 1", "12345678901234567", "1}", "1,2"]
    for (const text of [...others, ...numbers.map(d => `{"op":1,"d":${d}}`), ` ${good}`, `${good} `, `{"op":2,"d":1}`])
      expect(read(text), text).toBeUndefined()
  })
  test("no byte that is changed is taken for what it was", () => {
    const good = Buffer.from(`{"op":1,"d":1234}`)
    for (let at = 0; at < good.length; at++)
      for (let byte = 0; byte < 128; byte++) {
        const text = Buffer.from(good.with(at, byte)).toString()
        const d = read(text)
        if (d !== undefined) expect(closeOf(text), text).toEqual({ op: "HEARTBEAT", d })
      }
  })
})

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

const binary = (frame: Uint8Array, encoding: PlainEncoding = "json") => closeOf(frame, { binary: true, encoding })

describe("a compressed frame", () => {
  const heartbeat = { op: "HEARTBEAT", d: null }
  const json = '{"op":1,"d":null}'

  test.each([1, 5, 6, 9])("is read at any level (%i), as JSON and as MessagePack", level => {
    expect(binary(deflateSync(json, { level }))).toEqual(heartbeat)
    expect(binary(deflateSync(encode({ op: 1, d: null }), { level }), "msgpack")).toEqual(heartbeat)
  })

  test("is read up to the bound of what it holds, inclusive", () => {
    const holding = (size: number) => deflateSync(`{"op":1,"d":"${"x".repeat(size - 15)}"}`)
    expect(binary(holding(262_144))).toMatchObject({ op: "HEARTBEAT" })
    expect(binary(holding(262_145))).toBe("decode_error")
    expect(binary(holding(50_000_000))).toBe("decode_error")
  })

  test.each([
    ["the header alone", Uint8Array.of(0x78, 0x9c)],
    ["bytes that are no zlib", Uint8Array.of(0x78, 0x9c, 1, 2, 3, 4, 5, 6)],
    ["a cut-off blob", deflateSync(json).subarray(0, -3)],
    ["a blob without its end", deflateSync(json, { finishFlush: constants.Z_SYNC_FLUSH })],
    ["a wrong checksum", deflateSync(json).map((byte, i, all) => (i === all.length - 1 ? byte ^ 1 : byte))],
    ["something behind the blob", Buffer.concat([deflateSync(json), Buffer.from(" ")])],
    ["two blobs", Buffer.concat([deflateSync(json), deflateSync(json)])],
    ["one blob in another", deflateSync(deflateSync(json))],
    ["a blob that needs a dictionary", deflateSync(json, { dictionary: Buffer.from('{"op":') })],
    ["a blob of what is no JSON", deflateSync("{")],
    ["a blob of what is no UTF-8", deflateSync(Uint8Array.of(0x22, 0xff, 0x22))],
    ["a blob of nothing", deflateSync("")],
    ["another zlib header", Buffer.concat([Uint8Array.of(0x78, 0xbb), deflateSync(json).subarray(2)])],
  ])("is refused: %s", (_, blob) => {
    expect(binary(blob)).toBe("decode_error")
    expect(binary(blob, "msgpack")).toBe("decode_error")
  })

  test("is not looked for in text", () => {
    expect(closeOf(deflateSync(json))).toBe("decode_error")
  })
})

describe("MessagePack that JSON could not say, or that promises what it does not hold, is refused", () => {
  const deep = (depth: number) =>
    Uint8Array.from([0x82, 0xa2, 0x6f, 0x70, 1, 0xa1, 0x64, ...Array<number>(depth).fill(0x91), 0xc0])
  test.each([
    ["an array of four billion", [0xdd, 0xff, 0xff, 0xff, 0xff]],
    ["arrays of 65,535, each in the last", Array.from({ length: 20_000 }, () => [0xdc, 0xff, 0xff]).flat()],
    ["a map of four billion", [0xdf, 0xff, 0xff, 0xff, 0xff]],
    ["text of four billion bytes", [0xdb, 0xff, 0xff, 0xff, 0xff]],
    ["a length that is cut off", [0xdb, 0xff]],
    ["binary", [0x81, 0xa1, 0x64, 0xc4, 0x01, 0x00]],
    ["a time", [0x82, 0xa2, 0x6f, 0x70, 1, 0xa1, 0x64, 0xd6, 0xff, 0, 0, 0, 0]],
    ["an extension", [0x82, 0xa2, 0x6f, 0x70, 1, 0xa1, 0x64, 0xc7, 0x01, 0x05, 0x00]],
    ["a key that is a number", [0x81, 0x01, 0x01]],
    ["a key that is a map", [0x81, 0x80, 0x01]],
    ["a key that is nothing", [0x81, 0xc0, 0x01]],
    [
      "the key __proto__",
      [...encode({ op: 1 }).map((byte, i) => (i === 0 ? 0x82 : byte)), 0xa9, ...Buffer.from("__proto__"), 0x80],
    ],
    ["text that is no UTF-8", [0x82, 0xa2, 0x6f, 0x70, 1, 0xa1, 0x64, 0xa1, 0xff]],
    ["something behind it", [...encode({ op: 1 }), 0xc0]],
    ["two objects", [...encode({ op: 1 }), ...encode({ op: 1 })]],
    ["half of an object", [...encode({ op: 1, d: { a: 1 } })].slice(0, -1)],
    ["nothing", []],
    ["the byte that means nothing", [0xc1]],
  ])("%s", (_, frame) => expect(binary(Uint8Array.from(frame), "msgpack")).toBe("decode_error"))

  test("depth is bounded", () => {
    expect(binary(deep(31), "msgpack")).toMatchObject({ op: "HEARTBEAT" })
    expect(binary(deep(32), "msgpack")).toBe("decode_error")
    expect(binary(deep(60_000), "msgpack")).toBe("decode_error")
  })

  test("everything that JSON says is read", () => {
    const d = [
      null,
      true,
      false,
      0,
      -1,
      127,
      128,
      -33,
      256,
      -129,
      65_536,
      -40_000,
      2 ** 32,
      -(2 ** 40),
      1.5,
      "",
      "é🐦",
      "x".repeat(40),
    ]
    const more = { d, longer: "y".repeat(300), longest: "z".repeat(70_000), list: Array<number>(20).fill(1), more: {} }
    const wide = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`key${i}`, i]))
    const lists = { many: Array<number>(70_000).fill(7), wide }
    for (const one of [d, more, lists])
      expect(closeOf(encode({ op: 1, d: one }), { binary: true, encoding: "msgpack", max: 300_000 })).toEqual({
        op: "HEARTBEAT",
        d: one,
      })
    const exact = Uint8Array.from([
      0x82, 0xa2, 0x6f, 0x70, 0xcf, 0, 0, 0, 0, 0, 0, 0, 1, 0xa1, 0x64, 0xca, 0x3f, 0x80, 0, 0,
    ])
    expect(binary(exact, "msgpack")).toEqual({ op: "HEARTBEAT", d: 1 })
  })
})

const encodings: readonly Encoding[] = ["json", "msgpack", "json-zlib", "msgpack-zlib"]
const said = (payload: string | Uint8Array, encoding: Encoding): unknown => {
  if (typeof payload === "string") return JSON.parse(payload)
  const plain = encoding.endsWith("-zlib") ? inflateRawSync(payload, { finishFlush: constants.Z_SYNC_FLUSH }) : payload
  return encoding.startsWith("json") ? JSON.parse(plain.toString()) : decode(plain)
}

test("a dispatch has its keys in order, says the same in all encodings, and is made once in each", () => {
  const s = 2 ** 53 - 1
  const frame = new Frame("MESSAGE_CREATE", s, '{"content":"é 🐦","n":null}')
  expect(frame.in("json")).toBe(`{"op":0,"t":"MESSAGE_CREATE","s":${s},"d":{"content":"é 🐦","n":null}}`)
  for (const encoding of encodings) {
    expect(said(frame.in(encoding), encoding)).toEqual(JSON.parse(frame.in("json") as string))
    expect(frame.in(encoding)).toBe(frame.in(encoding))
    expect(typeof frame.in(encoding)).toBe(encoding === "json" ? "string" : "object")
  }
})

test("each compressed frame ends in a sync flush, and the first of a stream begins with its header", () => {
  for (const d of ['""', `"${"long ".repeat(20_000)}"`]) {
    const piece = new Frame("READY", 1, d).in("json-zlib") as Uint8Array
    expect(Buffer.from(piece.subarray(-4)).toString("hex")).toBe("0000ffff")
    expect(Buffer.from(opened(piece).subarray(0, 2)).toString("hex")).toBe("789c")
    expect(opened(piece).slice(2)).toEqual(Buffer.from(piece))
  }
})

test("a frame that is no dispatch carries op and d only", () => {
  expect(heartbeatAck.json).toBe('{"op":11}')
  expect(plainFrame("json", "INVALID_SESSION", false)).toBe('{"op":9,"d":false}')
  expect(decode(plainFrame("msgpack", "RECONNECT", null) as Uint8Array)).toEqual({ op: 7, d: null })
  for (const encoding of encodings) {
    expect(said(heartbeatAck[encoding], encoding)).toEqual({ op: 11 })
    expect(said(plainFrame(encoding, "RECONNECT", null), encoding)).toEqual({ op: 7, d: null })
  }
})
