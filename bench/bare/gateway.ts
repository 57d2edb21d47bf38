/**
 * The floor of a gateway: uWebSockets.js and the protocol's first frames, nothing else. A client
 * that identifies is subscribed to what its URL says, a POST to a server is published to it, a
 * topic for each kind of client. It knows no sessions, no rights, no order across processes, keeps
 * nothing, and encodes and compresses nothing: frames are only as long as the real ones.
 */
import uWS from "uWebSockets.js"
import { opcodes } from "../../src/contract/core/gateway-codes.ts"
import { onJson, reply, serve, upgrade } from "./serve.ts"

export interface BareGatewayOptions {
  /**
   * An event of Starling's as JSON. `content` and `nonce` come from the post and `s` goes on, so
   * that frames have as many bytes.
   */
  frame?: string
  /** Bytes of the same event by class; the class `json` is sent the event itself. */
  bytes?: Record<string, number>
  /** Bytes of READY. */
  ready?: number
}

const options = JSON.parse(process.argv[2] ?? "{}") as BareGatewayOptions
const frame = JSON.parse(options.frame ?? `{"s":1,"d":{}}`) as { s: number; d: object }
const classes = ["json", ...Object.keys(options.bytes ?? {})]

interface Client {
  server: string
  class: string
  topics: number
}

const hello = JSON.stringify({ op: opcodes.HELLO.op, d: { heartbeat_interval: 45_000 } })
const ack = JSON.stringify({ op: opcodes.HEARTBEAT_ACK.op })
const dispatch = (t: string, pad: string) =>
  JSON.stringify({ op: opcodes.DISPATCH.op, t, s: 1, d: { session_id: "0", pad } })
const ready = dispatch("READY", "~".repeat(Math.max(0, (options.ready ?? 0) - dispatch("READY", "").length)))
const resumed = dispatch("RESUMED", "")

const app = uWS.App()
let identified = 0

app.ws<Client>("/gateway", {
  idleTimeout: 0,
  maxBackpressure: 4 * 1024 * 1024,
  upgrade: (res, req, context) => {
    const client = {
      server: req.getQuery("server") ?? "0",
      class: req.getQuery("class") ?? "json",
      topics: Number(req.getQuery("topics") ?? 1),
    }
    upgrade(res, req, context, client)
  },
  open: ws => {
    ws.send(hello)
  },
  message: (ws, message) => {
    const { op } = JSON.parse(Buffer.from(message).toString()) as { op: number }
    if (op === opcodes.HEARTBEAT.op) {
      ws.send(ack)
      return
    }
    const { server, class: own, topics } = ws.getUserData()
    ws.subscribe(`${server} ${own}`)
    // The others are spread as memberships are.
    for (let i = 1; i < topics; i++) ws.subscribe(`other ${(identified + i * 7) % 100}`)
    identified++
    ws.send(op === opcodes.RESUME.op ? resumed : ready)
  },
})

app.post("/servers/:server", (res, req) => {
  const server = req.getParameter(0)
  onJson(res, req, body => {
    const { content, nonce } = body as { content: string; nonce: string }
    const d = { ...frame.d, content, nonce }
    for (const name of classes) {
      const topic = `${server} ${name}`
      const length = options.bytes?.[name]
      if (app.numSubscribers(topic) === 0) continue
      if (length === undefined) {
        app.publish(topic, JSON.stringify({ op: 0, t: "MESSAGE_CREATE", s: frame.s, d }))
        continue
      }
      const bytes = Buffer.alloc(length, "~")
      bytes.write(content)
      app.publish(topic, bytes, true)
    }
    frame.s++
    reply(res, d)
  })
})

serve(app)
