/**
 * The floor of a lone post: the way through the processes that ours takes and nothing else. A row is committed, then an entry
 * is appended to a stream, then the frame goes out and the post is answered. It knows no tokens, no rights, no sessions, and
 * recovers nothing.
 */
import { Redis } from "ioredis"
import postgres from "postgres"
import uWS from "uWebSockets.js"
import { onJson, reply, serve } from "./serve.ts"

const [databaseUrl, redisUrl, sample = "{}"] = process.argv.slice(2)
const sql = postgres(databaseUrl!, { max: 1, onnotice: () => undefined })
const redis = new Redis(redisUrl!)
/** An event of Starling's, so that rows, entries and frames have as many bytes. */
const frame = JSON.parse(sample) as { s: number; d: object }

await sql`CREATE TABLE IF NOT EXISTS bare_lone (id bigint PRIMARY KEY, content text, nonce text)`

const app = uWS.App()
/** Above whatever an earlier run left in the table. */
let lastId = BigInt(Date.now()) << 22n

app.ws("/gateway", { idleTimeout: 0, open: ws => void ws.subscribe("all") })

app.post("/messages", (res, req) => {
  onJson(res, req, body => {
    send(body as { content: string; nonce: string }, res).catch((cause: unknown) => {
      throw cause
    })
  })
})

async function send({ content, nonce }: { content: string; nonce: string }, res: uWS.HttpResponse): Promise<void> {
  await sql`INSERT INTO bare_lone (id, content, nonce) VALUES (${String(++lastId)}, ${content}, ${nonce})`
  const d = { ...frame.d, content, nonce }
  const text = JSON.stringify({ op: 0, t: "MESSAGE_CREATE", s: frame.s++, d })
  await redis.xadd("bare_lone", "MAXLEN", "~", 1_000, "*", "d", text)
  app.publish("all", text)
  reply(res, d)
}

serve(app)
