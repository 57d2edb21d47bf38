/**
 * The floor of a sign-in: uWebSockets.js and one argon2id hash, as many at once as Starling has. It
 * knows no people, no failures and no sessions: the password is compared with one hash, the answer
 * is always the same.
 */
import { verify } from "argon2"
import uWS from "uWebSockets.js"
import { onJson, reply, serve } from "./serve.ts"

const [stored, maxConcurrent, answer] = process.argv.slice(2) as [string, string, string]
const answered: unknown = JSON.parse(answer)

let running = 0
const waiting: (() => Promise<void>)[] = []

async function run(work: () => Promise<void>): Promise<void> {
  running++
  for (let next: typeof work | undefined = work; next; next = waiting.shift()) await next()
  running--
}

const app = uWS.App()

app.post("/auth/login", (res, req) => {
  onJson(res, req, body => {
    const { password } = body as { password: string }
    const work = async () => {
      if (!(await verify(stored, password))) throw new Error("a wrong password")
      reply(res, answered)
    }
    if (running >= Number(maxConcurrent)) waiting.push(work)
    else {
      run(work).catch((cause: unknown) => {
        throw cause
      })
    }
  })
})

serve(app)
