/**
 * Socket.IO on uWebSockets.js with the adapter for Redis Streams and connection state recovery:
 * what it has to offer for going on after a loss.
 */
import { createRequire } from "node:module"
import uWS from "uWebSockets.js"
import { onJson, reply, serve } from "../bare/serve.ts"
import { hall } from "../load/dialects.ts"

interface Server {
  attachApp(app: unknown): void
  on(name: "connection", act: (socket: { join(channel: string): void }) => void): void
  to(channel: string): { emit(name: string, value: object): void }
}

const [packageFile = "", redisUrl = "", sample = "{}"] = process.argv.slice(2)
const fetched = createRequire(packageFile)
const { Server } = fetched("socket.io") as { Server: new (options: object) => Server }
const { Redis } = fetched("ioredis") as { Redis: new (url: string) => object }
const { createAdapter } = fetched("@socket.io/redis-streams-adapter") as { createAdapter: (redis: object) => unknown }
const { d: message } = JSON.parse(sample) as { d: object }

const io = new Server({
  adapter: createAdapter(new Redis(redisUrl)),
  connectionStateRecovery: { maxDisconnectionDuration: 60_000 },
  transports: ["websocket"],
})
const app = uWS.App()
io.attachApp(app)
io.on("connection", socket => socket.join(hall))

app.post("/messages", (res, req) => {
  onJson(res, req, body => {
    const { content, nonce } = body as { content: string; nonce: string }
    const d = { ...message, content, nonce }
    // Nothing tells when the stream has it.
    io.to(hall).emit("MESSAGE_CREATE", d)
    reply(res, d)
  })
})

serve(app)
