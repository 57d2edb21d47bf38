/**
 * The floor of an answered GET: uWebSockets.js, a look at who asks, and one JSON object written out
 * each time.
 */
import uWS from "uWebSockets.js"
import { reply, serve } from "./serve.ts"

const answered: unknown = JSON.parse(process.argv[2] ?? "{}")

const app = uWS.App()

app.get("/users/@me", (res, req) => {
  req.getHeader("authorization")
  reply(res, answered)
})

serve(app)
