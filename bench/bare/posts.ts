/**
 * The floor of an accepted post: uWebSockets.js, and one insert at a time of whatever came while
 * the last was under way. A post is answered when its row is committed. It knows no tokens, no
 * rights, no repeats, and tells nobody.
 */
import postgres from "postgres"
import uWS from "uWebSockets.js"
import { onJson, reply, serve } from "./serve.ts"

const sql = postgres(process.argv[2]!, { max: 1, onnotice: () => undefined })
const message = JSON.parse(process.argv[3] ?? "{}") as Record<string, unknown>

await sql`
  CREATE TABLE IF NOT EXISTS bare_messages (
    channel_id bigint NOT NULL,
    id bigint NOT NULL,
    server_id bigint,
    author_id bigint NOT NULL,
    content text,
    edited_at bigint,
    reply_to_id bigint,
    nonce text,
    PRIMARY KEY (channel_id, id)
  )`

interface Row {
  channel: string
  id: string
  content: string
  nonce: string
  done: () => void
}

const author = "300000000000000001"
const server = "300000000000000002"
const perBatch = 512
/** Above whatever an earlier run left in the table. */
let lastId = BigInt(Date.now()) << 22n
let waiting: Row[] = []
let isBusy = false

async function flush(): Promise<void> {
  isBusy = true
  while (waiting.length > 0) {
    const rows = waiting.slice(0, perBatch)
    waiting = waiting.slice(perBatch)
    await sql`
      INSERT INTO bare_messages (channel_id, id, server_id, author_id, content, reply_to_id, nonce)
      SELECT * FROM unnest(${rows.map(row => row.channel)}::bigint[], ${rows.map(row => row.id)}::bigint[],
        ${rows.map(() => server)}::bigint[], ${rows.map(() => author)}::bigint[], ${rows.map(row => row.content)}::text[],
        ${rows.map(() => null)}::bigint[], ${rows.map(row => row.nonce)}::text[])`
    for (const { done } of rows) done()
  }
  isBusy = false
}

const app = uWS.App()

app.post("/channels/:channel/messages", (res, req) => {
  const channel = req.getParameter(0)
  onJson(res, req, body => {
    const { content, nonce } = body as { content: string; nonce: string }
    const id = String(++lastId)
    waiting.push({
      channel,
      id,
      content,
      nonce,
      done: () => reply(res, { ...message, id, channel_id: channel, content, nonce }),
    })
    if (!isBusy) {
      flush().catch((cause: unknown) => {
        throw cause
      })
    }
  })
})

serve(app)
