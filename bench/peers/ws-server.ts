/** `ws` with a loop over its clients, as most who use it write it. */
import { createServer } from "node:http"
import { createRequire } from "node:module"
import type { AddressInfo } from "node:net"

interface WebSocketServer {
  readonly clients: Set<{ send(data: Buffer, options: { binary: boolean }): void }>
}

const [packageFile = "", sample = "{}"] = process.argv.slice(2)
const { WebSocketServer } = createRequire(packageFile)("ws") as {
  WebSocketServer: new (options: object) => WebSocketServer
}
const frame = JSON.parse(sample) as { s: number; d: object }

const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    const { content, nonce } = JSON.parse(Buffer.concat(chunks).toString()) as { content: string; nonce: string }
    const d = { ...frame.d, content, nonce }
    const text = Buffer.from(JSON.stringify({ op: 0, t: "MESSAGE_CREATE", s: frame.s++, d }))
    for (const client of wss.clients) client.send(text, { binary: false })
    const body = Buffer.from(JSON.stringify(d))
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": body.length }).end(body)
  })
})
const wss = new WebSocketServer({ server, perMessageDeflate: false })

server.listen(0, "127.0.0.1", () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on("disconnect", () => process.exit())
