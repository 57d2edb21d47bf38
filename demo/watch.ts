/**
 * The gateway as a live stream for people: one line per event, with every state and resume of the
 * connection. It shows what a client goes through, and is built on the same client that others use.
 */
import { createInterface } from "node:readline/promises"
import { Writable } from "node:stream"
import { parseArgs } from "node:util"
import {
  GatewayClient,
  GatewayError,
  type GatewayClose,
  type GatewayOptions,
  type ReceivedEvent,
} from "../client/gateway.ts"
import { ApiError, createClient } from "../client/rest.ts"
import { login } from "../src/contract/accounts/auth.ts"
import { closeCodes } from "../src/contract/core/gateway-codes.ts"
import { clean, gistOf } from "./gist.ts"

const usage = `npm run gateway -- --token T | --login NAME [--url ws://127.0.0.1:8000/gateway] [--intents N] [--json] [--encoding msgpack] [--compress]

--token     a session's or a bot's token; without it STARLING_TOKEN from the environment
--login     logs in as NAME first; the password comes from STARLING_PASSWORD or is asked for
--url       the server's gateway, or its origin
--intents   which events to receive, a sum of bits; the server's default when left out
--json      one JSON object per line, for programs
--encoding  json (default) or msgpack
--compress  ask the server for compressed frames

Ctrl-C ends it.`

/** What ends the program with a sentence and without a stack. */
class Stop extends Error {}

interface Arguments {
  url: URL
  token: string | undefined
  login: string | undefined
  json: boolean
  gateway: Pick<GatewayOptions, "intents" | "encoding" | "compress">
}

function readArguments(): Arguments {
  const { values } = parseArgs({
    options: {
      token: { type: "string" },
      login: { type: "string" },
      url: { type: "string", default: "ws://127.0.0.1:8000/gateway" },
      intents: { type: "string" },
      json: { type: "boolean", default: false },
      encoding: { type: "string", default: "json" },
      compress: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  })
  const { encoding, intents } = values
  if (values.help) throw new Stop(usage)
  const token = values.token ?? process.env["STARLING_TOKEN"]
  if (values.login === undefined && !token) throw new Stop(usage)
  if (!URL.canParse(values.url) || !/^(ws|http)s?:$/.test(new URL(values.url).protocol))
    throw new Stop(`--url takes a ws, wss, http or https address\n\n${usage}`)
  if (encoding !== "json" && encoding !== "msgpack") throw new Stop(`--encoding takes json or msgpack\n\n${usage}`)
  if (intents !== undefined && !/^\d{1,10}$/.test(intents)) throw new Stop(`--intents takes a whole number\n\n${usage}`)
  return {
    url: new URL(values.url),
    token,
    login: values.login,
    json: values.json,
    gateway: {
      encoding,
      ...(intents !== undefined && { intents: Number(intents) }),
      ...(values.compress && { compress: true }),
    },
  }
}

/** The password, not shown while it is typed. */
async function askPassword(name: string): Promise<string> {
  const given = process.env["STARLING_PASSWORD"]
  if (given) return given
  if (!process.stdin.isTTY) throw new Stop("no terminal to ask for the password: set STARLING_PASSWORD")
  process.stderr.write(`Password of ${name}: `)
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const terminal = createInterface({ input: process.stdin, output: silent, terminal: true })
  const interrupted = new AbortController()
  terminal.on("SIGINT", () => interrupted.abort())
  try {
    return await terminal.question("", { signal: interrupted.signal })
  } catch (cause) {
    throw new Stop("nobody logged in", { cause })
  } finally {
    terminal.close()
    process.stderr.write("\n")
  }
}

async function logIn(url: URL, name: string): Promise<string> {
  const baseUrl = `${url.protocol.replace(/^ws/, "http")}//${url.host}`
  const password = await askPassword(name)
  const { token, status } = await createClient({ baseUrl }).call(
    login,
    { username: name, password },
    { signal: AbortSignal.timeout(15_000) },
  )
  if (token === null)
    throw new Stop(`the login needs more than a password (${status}): log in elsewhere and use --token`)
  return token
}

const isColoured = process.env["FORCE_COLOR"] ? true : process.stdout.isTTY && !process.env["NO_COLOR"]
const paint = (style: number) => (text: string) => (isColoured ? `\x1b[${style}m${text}\x1b[0m` : text)
const faint = paint(2)
const green = paint(32)
const yellow = paint(33)
const cyan = paint(36)

const hour = () => new Date().toISOString().slice(11, 23)
const say = (text: string) => process.stdout.write(`${text}\n`)

/** Where lines go: for people, or for programs. */
interface Printer {
  event(event: ReceivedEvent): void
  state(state: string, sentence: string, about?: object): void
}

const forPeople: Printer = {
  event({ name, s, data }) {
    const maxLength = process.stdout.isTTY ? Math.max(20, process.stdout.columns - 58) : Infinity
    say(
      `${faint(hour())}  ${faint(String(s).padStart(16))}  ${cyan(name.padEnd(24))}  ${gistOf(name, data, maxLength)}`,
    )
  },
  state: (state, sentence) =>
    say(`${faint(hour())}  ${(state === "live" ? green : yellow)(`${state}: ${clean(sentence)}`)}`),
}

// What is beyond ASCII's control characters JSON leaves as it is; a terminal would act on some of
// it.
const jsonLine = (value: object) =>
  say(JSON.stringify(value).replace(/[\u007f-\u009f]/g, one => `\\u00${one.charCodeAt(0).toString(16)}`))

const forPrograms: Printer = {
  event: ({ name, s, data }) => jsonLine({ at: Date.now(), t: name, s, d: data }),
  state: (state, _sentence, about = {}) => jsonLine({ at: Date.now(), state, ...about }),
}

/** A close code in words. */
function whyClosed({ code, reason }: Pick<GatewayClose, "code" | "reason">): string {
  const known = Object.values(closeCodes).filter(one => one.code === code)
  const entry = known.find(one => one.reason === reason) ?? known[0]
  const words = [reason || entry?.reason, entry?.summary.replaceAll("`", "")].filter(Boolean)
  return [String(code), ...words].join(", ")
}

/** Done when the stream has ended in order; fails when it cannot go on. */
function watch({ url, json, gateway }: Arguments, token: string): Promise<void> {
  const out = json ? forPrograms : forPeople
  const client = new GatewayClient({ ...gateway, url: url.href, token })
  let failure = ""
  return new Promise((resolve, reject) => {
    client.on("dispatch", event => {
      if (event.name === "READY") {
        const { user, guilds, session_id } = event.data
        const sentence = `as ${user.username} (${user.id}) in ${guilds.length} servers, session ${session_id}`
        out.state("live", sentence, { user, guilds, session_id, s: event.s })
      } else if (event.name === "RESUMED") {
        out.state("live", `resumed after ${event.s}; what was missed follows`, { resumed: true, s: event.s })
      } else out.event(event)
    })
    client.on("status", status => out.state("server", JSON.stringify(status), { status }))
    client.on("invalid_session", () => out.state("identifying", "the session is gone; a new one begins"))
    client.on("error", error => {
      failure = error.message
    })
    client.on("close", close => {
      const why = failure && close.code === 1006 ? failure : whyClosed(close)
      failure = ""
      const { code, reason, willReconnect } = close
      if (!willReconnect) return
      out.state("waiting", `the connection ended (${why}); it comes back by itself`, { code, reason })
    })

    const end = () => {
      client.close(1000)
      out.state("closed", "bye", { code: 1000 })
      resolve()
    }
    process.once("SIGINT", end).once("SIGTERM", end)
    // The reader of the output has gone, as `head` does.
    process.stdout.on("error", end)

    out.state("connecting", url.href, { url: url.href })
    client.connect().then(
      () => {},
      () => {}, // the close below says more
    )
    client.on("close", ({ code, reason, willReconnect }) => {
      if (willReconnect) return
      out.state("closed", whyClosed({ code, reason }), { code, reason })
      reject(new GatewayError(code, reason))
    })
  })
}

try {
  const asked = readArguments()
  const token = asked.login === undefined ? asked.token! : await logIn(asked.url, asked.login)
  await watch(asked, token)
} catch (cause) {
  const error = cause as Error
  if (error instanceof GatewayError) process.stderr.write(`The server ended the session: ${whyClosed(error)}\n`)
  else if (error instanceof Stop || error instanceof ApiError || error instanceof TypeError) {
    process.stderr.write(
      `${clean(error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message, "\n")}\n`,
    )
  } else process.stderr.write(`${error.stack}\n`)
  process.exitCode = 1
}
