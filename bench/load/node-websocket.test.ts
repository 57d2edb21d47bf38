/* oxlint-disable unicorn/prefer-add-event-listener -- NodeWebSocket has one handler of a kind, and no listeners */
import { createHash } from "node:crypto"
import { createServer } from "node:http"
import type { IncomingMessage } from "node:http"
import type { AddressInfo, Socket } from "node:net"
import { App, us_listen_socket_close, us_socket_local_port } from "uWebSockets.js"
import { afterEach, expect, test } from "vitest"
import { NodeWebSocket } from "./node-websocket.ts"
import type { NodeClose, NodeWebSocketOptions } from "./node-websocket.ts"

const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

const accept = (key: string) => createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64")

/** A server that says exactly what the test says, byte for byte. */
async function rawServer(serve: (socket: Socket, request: IncomingMessage) => void) {
  const server = createServer()
  const sockets = new Set<Socket>()
  server.on("upgrade", (request, socket: Socket) => {
    sockets.add(socket)
    socket.on("error", () => undefined)
    socket.on("end", () => socket.end())
    socket.resume()
    serve(socket, request)
  })
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
  closers.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}/gateway?encoding=json`
}

const hello = (request: IncomingMessage, key = request.headers["sec-websocket-key"] ?? "") =>
  `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept(key)}\r\n\r\n`

function frame(first: number, payload: string | Buffer): Buffer {
  const bytes = Buffer.from(payload as string)
  if (bytes.length < 126) return Buffer.concat([Buffer.from([first, bytes.length]), bytes])
  const head = Buffer.alloc(bytes.length < 65_536 ? 4 : 10)
  head[0] = first
  head[1] = head.length === 4 ? 126 : 127
  if (head.length === 4) head.writeUInt16BE(bytes.length, 2)
  else head.writeBigUInt64BE(BigInt(bytes.length), 2)
  return Buffer.concat([head, bytes])
}

interface Story {
  socket: NodeWebSocket
  received: (string | Buffer)[]
  errors: Error[]
  closed: Promise<NodeClose>
}

function open(url: string, options?: NodeWebSocketOptions): Story {
  const socket = new NodeWebSocket(url, undefined, options)
  const received: (string | Buffer)[] = []
  const errors: Error[] = []
  socket.onmessage = ({ data }) => received.push(typeof data === "string" ? data : Buffer.from(data))
  socket.onerror = ({ error }) => errors.push(error)
  const closed = new Promise<NodeClose>(resolve => {
    socket.onclose = resolve
  })
  closers.push(() => socket.terminate())
  return { socket, received, errors, closed }
}

const closeFrame = (code: number, reason = "") => {
  const bytes = Buffer.from([code >> 8, code & 255])
  return frame(0x88, Buffer.concat([bytes, Buffer.from(reason)]))
}

const every = [
  frame(0x81, "short"),
  frame(0x81, "é".repeat(200)),
  frame(0x82, Buffer.alloc(70_000, 7)),
  frame(0x81, ""),
  frame(0x01, "frag"),
  frame(0x89, "between"),
  frame(0x00, "men"),
  frame(0x80, "ted"),
  frame(0x82, Buffer.from([1, 2, 3])),
]
const heard = ["short", "é".repeat(200), Buffer.alloc(70_000, 7), "", "fragmented", Buffer.from([1, 2, 3])]

test("frames of every length arrive whole, with the handshake in the same packet", async () => {
  const url = await rawServer((socket, request) =>
    socket.write(Buffer.concat([Buffer.from(hello(request)), ...every, closeFrame(4004, "Authentication failed")])),
  )
  const { received, closed } = open(url)
  expect(await closed).toEqual({ code: 4004, reason: "Authentication failed", wasClean: true })
  expect(received).toEqual(heard)
})

test.each([1, 2, 3, 7, 1_000])("frames arrive whole however the stream is cut: %i bytes at a time", async size => {
  const short = every.map(bytes => (bytes.length > 60_000 ? frame(0x82, Buffer.alloc(1_300, 7)) : bytes))
  const url = await rawServer((socket, request) => {
    socket.setNoDelay(true)
    const bytes = Buffer.concat([Buffer.from(hello(request)), ...short, closeFrame(1000)])
    let at = 0
    const next = () => {
      socket.write(bytes.subarray(at, at + size))
      at += size
      if (at < bytes.length) setImmediate(next)
    }
    next()
  })
  const { received, closed } = open(url)
  expect((await closed).code).toBe(1000)
  expect(received).toEqual(heard.map(one => (one.length > 60_000 ? Buffer.alloc(1_300, 7) : one)))
})

const broken: [string, number, Buffer][] = [
  ["a reserved bit", 1002, frame(0xc1, "x")],
  ["an unknown opcode", 1002, frame(0x83, "x")],
  ["an unknown control opcode", 1002, frame(0x8b, "x")],
  ["a masked frame", 1002, Buffer.from([0x81, 0x81, 1, 2, 3, 4, 5])],
  ["a continuation of nothing", 1002, frame(0x80, "x")],
  ["a message within a message", 1002, Buffer.concat([frame(0x01, "x"), frame(0x81, "y")])],
  ["a fragmented ping", 1002, frame(0x09, "x")],
  ["a ping of 126 bytes", 1002, frame(0x89, "x".repeat(126))],
  ["text that is not UTF-8", 1007, frame(0x81, Buffer.from([0xc3, 0x28]))],
  ["a message over the bound", 1009, frame(0x82, Buffer.alloc(1_001))],
  ["fragments over the bound", 1009, Buffer.concat([frame(0x02, Buffer.alloc(600)), frame(0x80, Buffer.alloc(600))])],
  ["a length of 2^63", 1009, Buffer.from([0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0])],
]
test.each(broken)("%s fails the connection with %i", async (_, code, bytes) => {
  const url = await rawServer((socket, request) => {
    socket.write(hello(request))
    socket.write(bytes)
    socket.write(frame(0x81, "too late"))
  })
  const { received, errors, closed } = open(url, { maxBytes: 1_000 })
  expect(await closed).toMatchObject({ code, wasClean: false })
  expect(received).toEqual([])
  expect(errors).toHaveLength(1)
})

const handshakes: [string, (request: IncomingMessage) => string][] = [
  ["another status", () => "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"],
  ["a wrong Sec-WebSocket-Accept", request => hello(request, "somebody else's")],
  [
    "an extension nobody offered",
    request => hello(request).replace("\r\n\r\n", "\r\nSec-WebSocket-Extensions: x\r\n\r\n"),
  ],
  ["a header without end", () => `HTTP/1.1 101 Switching Protocols\r\nX: ${"x".repeat(20_000)}`],
]
test.each(handshakes)("a handshake with %s is refused", async (_, answer) => {
  const url = await rawServer((socket, request) => socket.write(answer(request)))
  const { errors, closed } = open(url)
  expect((await closed).code).toBe(1006)
  expect(errors).toHaveLength(1)
})

test("a handshake that never comes ends at its deadline", async () => {
  const { errors, closed } = open(await rawServer(() => undefined), { timeoutMs: 30 })
  expect((await closed).code).toBe(1006)
  expect(errors[0]?.message).toMatch(/too long/)
})

test("a port where nobody listens is an error and a close", async () => {
  const { errors, closed } = open("ws://127.0.0.1:1/gateway")
  expect((await closed).code).toBe(1006)
  expect(errors).toHaveLength(1)
})

test("a connection that ends without a close frame closes with 1006", async () => {
  const url = await rawServer((socket, request) => {
    socket.end(hello(request))
  })
  expect(await open(url).closed).toEqual({ code: 1006, reason: "", wasClean: false })
})

test("a header cannot smuggle a second one", () => {
  expect(() => new NodeWebSocket("ws://127.0.0.1:1/", undefined, { headers: { a: "b\r\nc: d" } })).toThrow(SyntaxError)
})

/** A server that did not learn RFC 6455 from us. */
function echoServer(closes: { code: number; reason: string }[] = []) {
  const app = App().ws("/gateway", {
    maxPayloadLength: 1024 * 1024,
    maxBackpressure: 64 * 1024 * 1024,
    open: ws => {
      ws.ping("are you there")
    },
    message: (ws, message, isBinary) => {
      ws.send(message, isBinary)
    },
    pong: ws => {
      ws.send("ponged")
    },
    close: (_, code, reason) => {
      closes.push({ code, reason: Buffer.from(reason).toString() })
    },
  })
  return new Promise<string>(resolve => {
    app.listen("127.0.0.1", 0, token => {
      if (!token) throw new Error("cannot listen")
      closers.push(() => us_listen_socket_close(token))
      resolve(`ws://127.0.0.1:${us_socket_local_port(token)}/gateway`)
    })
  })
}

test("what we mask uWebSockets.js reads, at every length of header; its ping is answered", async () => {
  const closes: { code: number; reason: string }[] = []
  const { socket, received, closed } = open(await echoServer(closes))
  const sent = ["", "x", "y".repeat(125), "z".repeat(126), "ß".repeat(40_000), Buffer.alloc(100_000, 9)]
  await new Promise<void>(resolve => {
    socket.onopen = resolve
  })
  for (const data of sent) socket.send(data)
  while (received.length < sent.length + 1) await new Promise(resolve => setTimeout(resolve, 5))
  expect(received.filter(one => one !== "ponged")).toEqual(sent)
  expect(received).toContain("ponged")

  socket.close(4000, "done")
  expect(await closed).toMatchObject({ code: 4000, wasClean: true })
  expect(closes).toEqual([{ code: 4000, reason: "done" }])
})

test("terminate says no goodbye", async () => {
  const closes: { code: number; reason: string }[] = []
  const { socket, received, closed } = open(await echoServer(closes))
  while (received.length === 0) await new Promise(resolve => setTimeout(resolve, 5))
  socket.terminate()
  expect(await closed).toEqual({ code: 1006, reason: "", wasClean: false })
  while (closes.length === 0) await new Promise(resolve => setTimeout(resolve, 5))
  expect(closes[0]?.code).toBe(1006)
})
