/**
 * The floor of a page of history: one statement for what a message shows, through postgres.js;
 * nothing is done with its rows. Its LIMIT is a constant, so that it is planned once.
 */
import uWS from "uWebSockets.js"
import { openPool } from "../../src/storage/core/database.ts"
import { messageFields } from "../../src/storage/messages/messages.ts"
import { reply, serve } from "./serve.ts"

const sql = openPool({
  url: process.argv[2]!,
  connections: 8,
  statementTimeoutMs: 10_000,
  connectTimeoutMs: 10_000,
  name: "bare history",
})
const page = (channel: string, { limit, before }: { limit: number; before: string | undefined }) => sql`
  SELECT ${messageFields(sql)} FROM messages m LEFT JOIN users u ON u.id = m.author_id
  WHERE m.channel_id = ${channel} AND m.id < ${before ?? "9223372036854775807"} AND NOT m.deleted ORDER BY m.id DESC LIMIT ${sql.unsafe(String(limit))}`
const app = uWS.App()

app.get("/channels/:channel/messages", (res, req) => {
  const channel = req.getParameter(0)
  const [limit, before] = [Number(req.getQuery("limit")), req.getQuery("before")]
  res.onAborted(() => {
    res["gone"] = true
  })
  page(channel, { limit, before }).then(
    rows => reply(res, { rows: rows.length }),
    (cause: unknown) => {
      throw cause
    },
  )
})

serve(app)
