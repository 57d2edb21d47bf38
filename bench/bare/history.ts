/** The floor of a page of history: the server's own statement through postgres.js, and nothing done with its rows. */
import uWS from "uWebSockets.js"
import { openPool } from "../../src/storage/database.ts"
import { messagesStorage } from "../../src/storage/messages.ts"
import { reply, serve } from "./serve.ts"

const sql = openPool({
  url: process.argv[2]!,
  connections: 8,
  statementTimeout: 10_000,
  connectTimeout: 10_000,
  name: "bare history",
})
const { page } = messagesStorage(sql)
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
