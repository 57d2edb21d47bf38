/** What frames look like on the wire, in each encoding, compressed or not, in both directions. */
import { spawnSync } from "node:child_process"
import { constants, createInflate, deflateSync } from "node:zlib"
import { decode, encode } from "@msgpack/msgpack"
import { describe } from "vitest"
import type { ServerFrame } from "../../client/gateway.ts"
import { closedWith, identified, open, Raw } from "../kit/raw.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

type Format = "json" | "msgpack"
const formats: readonly Format[] = ["json", "msgpack"]

/** What one stream, kept from the first piece to the last, says at each piece. */
async function inflatedByNode(pieces: readonly Uint8Array[]): Promise<Uint8Array[]> {
  const stream = createInflate({ flush: constants.Z_SYNC_FLUSH })
  let said: Uint8Array[] = []
  stream.on("data", (bytes: Uint8Array) => said.push(bytes))
  const all: Uint8Array[] = []
  for (const piece of pieces) {
    await new Promise<void>((resolve, reject) => stream.write(piece, error => (error ? reject(error) : resolve())))
    all.push(Buffer.concat(said))
    said = []
  }
  stream.destroy()
  return all
}

const python = `
import sys, zlib
stream = zlib.decompressobj()
for line in sys.stdin:
    print(stream.decompress(bytes.fromhex(line.strip())).hex())
`
/** The same by another program's zlib, where there is one. */
function inflatedByPython(pieces: readonly Uint8Array[]): Uint8Array[] | undefined {
  const input = pieces.map(piece => Buffer.from(piece).toString("hex")).join("\n")
  const { status, stdout } = spawnSync("python3", ["-c", python], { input, encoding: "utf8" })
  return status === 0
    ? stdout
        .trimEnd()
        .split("\n")
        .map(line => Buffer.from(line, "hex"))
    : undefined
}

const readAs = (format: Format, bytes: Uint8Array) =>
  (format === "json" ? JSON.parse(Buffer.from(bytes).toString()) : decode(bytes)) as ServerFrame

/** The pieces of a socket's stream. The frames before it are not compressed, as the format says. */
function piecesOf(raw: Raw, format: Format): Uint8Array[] {
  const start = raw.messages.findIndex(message => typeof message !== "string" && message[0] === 0x78)
  const pieces = raw.messages.slice(start)
  expect(raw.kinds.slice(0, start)).toEqual(Array<string>(start).fill(format === "json" ? "text" : "binary"))
  expect(new Set(raw.kinds.slice(start))).toEqual(new Set(["binary"]))
  return pieces as Uint8Array[]
}

async function expectOneStream(raw: Raw, format: Format): Promise<void> {
  const pieces = piecesOf(raw, format)
  expect(Buffer.from(pieces[0]!.subarray(0, 2)).toString("hex")).toBe("789c")
  for (const piece of pieces) expect(Buffer.from(piece.subarray(-4)).toString("hex")).toBe("0000ffff")
  const said = await inflatedByNode(pieces)
  expect(said.map(bytes => readAs(format, bytes))).toEqual(raw.frames.slice(-pieces.length))
  const alsoSaid = inflatedByPython(pieces)
  if (alsoSaid) expect(alsoSaid.map(bytes => readAs(format, bytes))).toEqual(raw.frames.slice(-pieces.length))
}

const dispatches = (raw: Raw) => raw.frames.filter(({ op, t }) => op === 0 && t !== "READY" && t !== "RESUMED")
const compress = { d: { compress: true } }

describe.each(formats)("in %s", format => {
  const query = format === "json" ? "?compress=zlib-stream" : "?encoding=msgpack"

  test("READY and all after it are one zlib stream, a frame a piece; what comes before is not compressed", async ({
    shared,
  }) => {
    const { channel, ada, lin } = await shared.seed(sharedServer)
    const raw = await open(shared.east, { query })
    const say = (frame: object) => raw.say(format === "json" ? JSON.stringify(frame) : encode(frame))
    say({ op: 1, d: null })
    await raw.op(11)
    say({ op: 6, d: { token: lin.token, session_id: "0".repeat(32), seq: 1, compress: true } })
    await raw.op(9)
    say({ op: 2, d: { token: lin.token, compress: true } })
    const plain = await identified(shared.east, lin.token, { query })
    await raw.event("READY")
    const beforeReady = raw.frames.findIndex(({ t }) => t === "READY")
    say({ op: 1, d: null })
    const longest = "a word and another, é 🐦; ".repeat(100).slice(0, 2_000)
    for (const content of ["one", longest, "one", longest])
      await ada.on(shared.west).createMessage({ channel_id: channel.id, content })
    await shared.settle()
    say({ op: 1, d: "last" })
    plain.say({ op: 1, d: "last" })
    await until("both have heard the end", () => raw.frames.at(-1)?.op === 11 && plain.frames.at(-1)?.op === 11)
    expect(dispatches(raw).map(({ t }) => t)).toEqual(Array<string>(4).fill("MESSAGE_CREATE"))
    expect(dispatches(raw)).toEqual(dispatches(plain))
    expect(piecesOf(raw, format)).toHaveLength(raw.frames.length - beforeReady)
    expect(raw.frames.slice(0, beforeReady).map(({ op }) => op)).toEqual([10, 11, 9])
    await expectOneStream(raw, format)
    for (const one of [raw, plain]) one.close()
  })

  test("a frame is compressed once, however many receive it and whatever came before", async ({ shared }) => {
    const { channel, ada, lin } = await shared.seed(sharedServer)
    const early = await identified(shared.east, lin.token, { query, ...compress })
    const send = (content: string) => ada.on(shared.east).createMessage({ channel_id: channel.id, content })
    await send("before the second came")
    await early.event("MESSAGE_CREATE")
    const late = await identified(shared.east, ada.token, { query, ...compress })
    await send("for both")
    await until("both have it", () => dispatches(early).length === 2 && dispatches(late).length === 1)
    expect(early.messages.at(-1)).toEqual(late.messages.at(-1))
    for (const raw of [early, late]) {
      await expectOneStream(raw, format)
      raw.close()
    }
  })

  test("P5: RESUME says for itself whether what follows is compressed, here and on another worker", async ({
    shared,
  }) => {
    const { channel, ada, lin } = await shared.seed(sharedServer)
    for (const place of [shared.east, shared.west])
      for (const first of [true, false])
        for (const then of [true, false]) {
          const raw = await identified(shared.east, lin.token, { query, d: { compress: first } })
          const { session_id } = raw.frames.at(-1)!.d as { session_id: string }
          const seq = raw.frames.at(-1)!.s!
          raw.close()
          const sent = []
          for (let i = 0; i < 3; i++)
            sent.push(await ada.on(shared.west).createMessage({ channel_id: channel.id, content: `missed ${i}` }))
          const back = await open(place, { query })
          back.say({ op: 6, d: { token: lin.token, session_id, seq, ...(then && { compress: 1 }) } })
          await until("all is there", () => dispatches(back).filter(({ t }) => t === "MESSAGE_CREATE").length === 3)
          expect(
            dispatches(back).flatMap(({ t, d }) => (t === "MESSAGE_CREATE" ? [(d as { id: string }).id] : [])),
          ).toEqual(sent.map(({ id }) => id))
          expect(back.frames[1]).toMatchObject({ t: "RESUMED", s: seq })
          if (then) await expectOneStream(back, format)
          else expect(new Set(back.kinds)).toEqual(new Set([format === "json" ? "text" : "binary"]))
          back.close()
        }
  })

  test("the client that we ship speaks it, and resumes with it", async ({ shared }) => {
    const { channel, ada, lin } = await shared.seed(sharedServer)
    const inbox = await lin.listen(shared.east, { encoding: format, compress: true })
    const send = (content: string) => ada.on(shared.west).createMessage({ channel_id: channel.id, content })
    const first = await send("compressed")
    expect(await inbox.next("MESSAGE_CREATE")).toMatchObject({ id: first.id, content: "compressed" })
    inbox.drop()
    const second = await send("missed")
    await inbox.reconnect(shared.west.url)
    expect(await inbox.next("MESSAGE_CREATE")).toMatchObject({ id: second.id, content: "missed" })
    expect(await inbox.heartbeatNow()).toBeGreaterThanOrEqual(0)
  })
})

test("every spelling of true compresses, and nothing else", async ({ shared }) => {
  const ada = await shared.person("ada")
  for (const value of [1, "yes", {}, [], -1]) {
    const raw = await identified(shared.east, ada.token, { d: { compress: value } })
    expect(raw.kinds).toEqual(["text", "binary"])
    raw.close()
  }
  for (const value of [0, "", false, null, undefined]) {
    const raw = await identified(shared.east, ada.token, { d: { compress: value } })
    expect(raw.kinds).toEqual(["text", "text"])
    raw.close()
  }
})

test("where compression is off it is not given, and compressed frames are still read", async ({ cluster }) => {
  const [worker] = await cluster.boot(1, { config: { STARLING_GATEWAY_COMPRESSION_ENABLED: "false" } })
  const ada = await cluster.person("ada")
  const raw = await open(worker!)
  raw.say(deflateSync(JSON.stringify({ op: 2, d: { token: ada.token, compress: true } })))
  await raw.event("READY")
  expect(raw.kinds).toEqual(["text", "text"])
  const { session_id } = raw.frames[1]!.d as { session_id: string }
  raw.close()
  const back = await open(worker!)
  back.say({ op: 6, d: { token: ada.token, session_id, seq: raw.frames[1]!.s, compress: true } })
  await back.event("RESUMED")
  expect(new Set(back.kinds)).toEqual(new Set(["text"]))
  back.close()
})

test("RECONNECT of a worker that leaves is a piece of the stream too", async ({ cluster }) => {
  const [, west] = await cluster.boot(2)
  const ada = await cluster.person("ada")
  const raw = await identified(west!, ada.token, compress)
  const leaving = west!.drain()
  expect(await raw.ended).toEqual(closedWith("service_restart"))
  expect(raw.frames.at(-1)).toEqual({ op: 7, d: null })
  await expectOneStream(raw, "json")
  await leaving
})

describe("a client's binary frame may be compressed, whether or not it asked to be sent such", () => {
  test.for(formats)("%s", async (format, { shared }) => {
    const ada = await shared.person("ada")
    const raw = await open(shared.east, { query: `?encoding=${format}` })
    const written = (frame: object) => (format === "json" ? Buffer.from(JSON.stringify(frame)) : encode(frame))
    const acks = () => raw.frames.filter(({ op }) => op === 11).length
    raw.say(deflateSync(written({ op: 1, d: null }), { level: 9 }))
    await until("an answer", () => acks() === 1)
    raw.say(deflateSync(written({ op: 2, d: { token: ada.token } }), { level: 1 }))
    await raw.event("READY")
    raw.say(deflateSync(written({ op: 1, d: "x".repeat(200_000) })))
    raw.say(written({ op: 1, d: null }))
    raw.say(JSON.stringify({ op: 1 }))
    await until("answers", () => acks() === 4)
    raw.say(deflateSync(written({ op: 1, d: "x".repeat(262_144) })))
    expect(await raw.ended).toEqual(closedWith("decode_error"))
  })

  test("what is broken, followed by more, or holds too much closes with 4002", async ({ shared }) => {
    const blob = deflateSync('{"op":1}')
    for (const frame of [
      blob.subarray(0, -2),
      Buffer.concat([blob, Buffer.from("x")]),
      Uint8Array.of(0x78, 0xda, 0xff, 0xff),
      deflateSync(Buffer.alloc(40_000_000, " ")),
    ]) {
      const raw = await open(shared.east)
      raw.say(frame)
      expect(await raw.ended).toEqual(closedWith("decode_error"))
    }
  })
})
