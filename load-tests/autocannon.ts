/** Two requests under load, one after the other: the cheapest that is authenticated, and a post. */
import { randomBytes } from "node:crypto"
import { parseArgs } from "node:util"
import autocannon from "autocannon"
import type { Options } from "autocannon"
import { createClient } from "../client/rest.ts"
import { startOwnServer } from "../demo/own-server.ts"
import { routes } from "../src/contract/contract.ts"

const usage = `npm run load -- [--url http://host:port] [--seconds 10] [--connections 32]

--url          a running server without limits; left out, one is started for the test
--seconds      of each of the two loads, up to 300
--connections  requests in flight, up to 1,000`

/** What ends the test with a sentence and without a stack. */
class Stop extends Error {}

function readArguments() {
  const { values } = parseArgs({
    options: {
      url: { type: "string" },
      seconds: { type: "string", default: "10" },
      connections: { type: "string", default: "32" },
    },
  })
  const number = (name: string, value: string, most: number) => {
    if (!/^\d+$/.test(value) || Number(value) < 1 || Number(value) > most)
      throw new Stop(`--${name} takes a whole number from 1 to ${most}\n\n${usage}`)
    return Number(value)
  }
  return {
    url: values.url,
    seconds: number("seconds", values.seconds, 300),
    connections: number("connections", values.connections, 1_000),
  }
}

async function main(): Promise<void> {
  const { url, seconds, connections } = readArguments()
  if (url !== undefined) {
    await load(url, seconds, connections)
    return
  }
  process.stdout.write("starting a server …\n")
  const own = await startOwnServer()
  const interrupted = () => {
    own.stop().then(
      () => process.exit(130),
      () => process.exit(130),
    )
  }
  process.once("SIGINT", interrupted).once("SIGTERM", interrupted)
  try {
    await load(own.url, seconds, connections)
  } finally {
    await own.stop()
    process.off("SIGINT", interrupted).off("SIGTERM", interrupted)
  }
}

async function load(url: string, duration: number, connections: number): Promise<void> {
  const username = `load_${randomBytes(6).toString("hex")}`
  const anonymous = createClient({ baseUrl: url, retry: true }, routes)
  const password = `Load-7-${randomBytes(12).toString("base64url")}`
  const { token } = await anonymous.register({ username, email: `${username}@example.com`, password })
  if (token === null) throw new Stop("the server registered a user without a token")
  const client = anonymous.as(token)
  const server = await client.createServer({ name: username })
  const channel = (await client.listChannels({ server_id: server.id })).at(0)
  if (!channel) throw new Stop("the server made a server without a channel")

  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" }
  const common = { connections, duration, headers }
  await run({ ...common, url: `${url}/api/v1/users/@me`, title: "GET /users/@me" })
  await run({
    ...common,
    url: `${url}/api/v1/channels/${channel.id}/messages`,
    title: "POST /channels/:channel_id/messages",
    method: "POST",
    body: JSON.stringify({ content: "the quick brown fox jumps over the lazy dog", nonce: "[<id>]" }),
    idReplacement: true,
  })
}

async function run(options: Options): Promise<void> {
  const result = await autocannon(options)
  process.stdout.write(`\n${options.title}\n${autocannon.printResult(result)}\n`)
  if (result.statusCodeStats["429"]) throw new Stop("this server limits its callers; start it with RATE_LIMITS=off")
  if (result.non2xx > 0 || result.errors > 0 || result["2xx"] === 0)
    throw new Stop(`FAILED: ${result["2xx"]} answers 2xx, ${result.non2xx} others, ${result.errors} errors`)
}

try {
  await main()
} catch (cause) {
  process.stderr.write(`${cause instanceof Stop ? cause.message : (cause as Error).stack}\n`)
  process.exitCode = 1
}
