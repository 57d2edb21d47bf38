/**
 * uWebSockets.js and the ways to compress what it sends: not at all, once for everybody as Starling
 * does, or with a deflater per socket that refers back to what that socket was sent before. Driven
 * by the process that started it.
 */
import { createDeflateRaw, constants, type DeflateRaw } from "node:zlib"
import uWS, { type WebSocket } from "uWebSockets.js"
import { Frame } from "../../src/gateway/protocol/frames.ts"

export type Way = "plain" | "shared" | "own" | "own, small"
/** Messages to send one after another, as `d` of a dispatch. */
export type Order = { readonly messages: readonly string[] }
export type Report =
  | { readonly port: number }
  | { readonly sockets: number }
  | { readonly cpuMicroseconds: number; readonly bytes: number }

interface Data {
  deflater: DeflateRaw | undefined
}

const way = process.argv[2] as Way
const deflaters = {
  own: {},
  "own, small": { windowBits: 10, memLevel: 3 },
}
const report = (what: Report) => process.send!(what)
const app = uWS.App()
const sockets: WebSocket<Data>[] = []
let bytes = 0

app.ws<Data>("/gateway", {
  idleTimeout: 0,
  maxBackpressure: 64 * 1024 * 1024,
  upgrade: (res, req, context) => {
    const key = req.getHeader("sec-websocket-key")
    res.upgrade({ deflater: undefined }, key, "", "", context)
  },
  open: ws => {
    ws.subscribe("all")
    sockets.push(ws)
    if (way === "own" || way === "own, small") {
      const deflater = createDeflateRaw({ ...deflaters[way], chunkSize: 4096 })
      deflater.on("data", (piece: Uint8Array) => {
        bytes += piece.length
        ws.send(piece, true, false)
      })
      ws.getUserData().deflater = deflater
    }
    report({ sockets: sockets.length })
  },
  message: () => {},
})

/** Done when every deflater has given what it has. */
async function deliver(frame: Frame): Promise<void> {
  if (way === "plain" || way === "shared") {
    const payload = frame.in(way === "plain" ? "json" : "json-zlib")
    bytes += Buffer.byteLength(payload) * sockets.length
    app.publish("all", payload, way === "shared", false)
    return new Promise(resolve => setImmediate(resolve))
  }
  const text = Buffer.from(frame.in("json") as string)
  await Promise.all(
    sockets.map(ws => {
      const { deflater } = ws.getUserData()
      deflater!.write(text)
      return new Promise<void>(resolve => deflater!.flush(constants.Z_SYNC_FLUSH, resolve))
    }),
  )
}

process.on("message", ({ messages }: Order) => {
  const run = async () => {
    const before = process.cpuUsage()
    bytes = 0
    for (const [i, d] of messages.entries()) await deliver(new Frame("MESSAGE_CREATE", 700_000_000_000 + i, d))
    const { user, system } = process.cpuUsage(before)
    report({ cpuMicroseconds: user + system, bytes })
  }
  run().catch((error: unknown) => {
    process.stderr.write(`${String(error)}\n`)
    process.exit(1)
  })
})

app.listen("127.0.0.1", 0, socket => {
  if (!socket) process.exit(1)
  report({ port: uWS.us_socket_local_port(socket) })
})
