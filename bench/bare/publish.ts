/**
 * The floor of a fan-out: uWebSockets.js and nothing else. Clients that connect are subscribed, a
 * POST is published to all. It knows no sessions, no rights, no order across processes, and keeps
 * nothing.
 */
import uWS from "uWebSockets.js"
import { onJson, reply, serve, upgrade } from "./serve.ts"

/**
 * An event of Starling's. `content` and `nonce` come from the post and `s` goes on, so that frames
 * have as many bytes.
 */
const frame = JSON.parse(process.argv[2] ?? "{}") as { s: number; d: object }

const app = uWS.App()
let opened = 0

app.ws<{ topics: number }>("/gateway", {
  idleTimeout: 0,
  maxBackpressure: 1024 * 1024,
  upgrade: (res, req, context) => upgrade(res, req, context, { topics: Number(req.getQuery("topics") ?? 1) }),
  open: ws => {
    // Everybody hears the first topic; the others are spread as memberships are.
    ws.subscribe("0")
    for (let i = 1; i < ws.getUserData().topics; i++) ws.subscribe(String(1 + ((opened + i * 7) % 100)))
    opened++
  },
})

app.post("/messages", (res, req) => {
  onJson(res, req, body => {
    const { content, nonce } = body as { content: string; nonce: string }
    const d = { ...frame.d, content, nonce }
    app.publish("0", JSON.stringify({ op: 0, t: "MESSAGE_CREATE", s: frame.s++, d }))
    reply(res, d)
  })
})

serve(app)
