/** A mail server of the test's own on loopback, and what has arrived there. */
import { once } from "node:events"
import { createServer, type AddressInfo, type Server } from "node:net"
import { SMTPServer, type SMTPServerSession } from "smtp-server"
import { newTokenSecret, tokenText } from "../../src/cluster/one-time-tokens.ts"
import type { Sql } from "../../src/storage/core/database.ts"
import type { MailKind } from "../../src/storage/accounts/mails.ts"
import type { Person } from "./person.ts"
import { until } from "./until.ts"

/** A token as a mail would have brought it, for somebody whose home has not looked at their tokens yet. */
export async function emailLinkToken(
  sql: Sql,
  { id: user, email }: Pick<Person, "id" | "email">,
  kind: MailKind,
): Promise<string> {
  const { secret, token_hash } = newTokenSecret()
  const id = String(BigInt(user) + 1n)
  const expires_at = Math.floor(Date.now() / 1000) + 600
  await sql`
    INSERT INTO one_time_tokens (id, user_id, kind, token_hash, email, expires_at)
    VALUES (${id}, ${user}, ${kind}, ${token_hash}, ${email}, ${expires_at})`
  return tokenText(kind, id, secret)
}

export interface Letter {
  /** As the envelope says. */
  readonly to: readonly string[]
  /** By name in lower case. */
  readonly headers: ReadonlyMap<string, string>
  readonly subject: string
  readonly text: string
  readonly html: string
  /** The one link in it. */
  readonly link: string
  /** What stands behind the link's `#`. */
  readonly token: string
}

export class Mailbox {
  readonly letters: Letter[] = []
  /** Asked for every recipient; what it throws is the server's answer. */
  judge: (address: string) => void = () => {}
  /** Of whom the next mail is taken without a word of it: the connection ends first. */
  readonly silentFor = new Set<string>()
  /** Names that were given with a password; any will do. */
  readonly signedIn: string[] = []
  #server: SMTPServer | undefined
  #port = 0
  readonly #read = new Set<Letter>()

  static async open(): Promise<Mailbox> {
    const mailbox = new Mailbox()
    await mailbox.start()
    return mailbox
  }

  /** For `SMTP_URL`. */
  get url(): string {
    return `smtp://127.0.0.1:${this.#port}`
  }

  /** Also after `stop`: at the same address. */
  async start(): Promise<void> {
    const server = new SMTPServer({
      authOptional: true,
      allowInsecureAuth: true,
      disabledCommands: ["STARTTLS"],
      logger: false,
      closeTimeout: 100,
      onAuth: ({ username = "" }, _session, done) => {
        this.signedIn.push(username)
        done(null, { user: username })
      },
      onRcptTo: ({ address }, _session, done) => {
        try {
          this.judge(address)
          done()
        } catch (error) {
          done(error as Error)
        }
      },
      onData: (stream, session, done) => {
        const pieces: Buffer[] = []
        stream.on("data", (piece: Buffer) => pieces.push(piece))
        stream.once("end", () => {
          const letter = letterOf(session, Buffer.concat(pieces).toString())
          this.letters.push(letter)
          if (!letter.to.some(address => this.silentFor.delete(address))) return done()
          for (const connection of server.connections) if (connection.id === session.id) connection.close()
        })
      },
    })
    server.on("error", () => {})
    server.listen(this.#port, "127.0.0.1")
    await once(server.server, "listening")
    this.#port = (server.server.address() as AddressInfo).port
    this.#server = server
  }

  /** From now on connections to its address are refused. */
  async stop(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    if (server) await new Promise<void>(resolve => server.close(() => resolve()))
  }

  /** The next letter to somebody that was not read yet. */
  async next(to: string): Promise<Letter> {
    let found: Letter | undefined
    await until(`a mail to ${to}`, () => {
      found = this.letters.find(letter => letter.to.includes(to) && !this.#read.has(letter))
      return found !== undefined
    })
    this.#read.add(found!)
    return found!
  }

  to(address: string): Letter[] {
    return this.letters.filter(({ to }) => to.includes(address))
  }
}

/** A server that takes connections and never comes to the point: it says nothing, or greets and then talks on and on. */
export async function openIdler(says: "nothing" | "much"): Promise<{ url: string; server: Server }> {
  const server = createServer(socket => {
    socket.on("error", () => {})
    if (says === "nothing") return
    socket.write("220 talker\r\n")
    const talking = setInterval(() => socket.write("250-and another thing\r\n"), 20)
    socket.once("close", () => clearInterval(talking))
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  return { url: `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`, server }
}

function letterOf({ envelope }: SMTPServerSession, raw: string): Letter {
  const whole = partOf(raw)
  const boundary = /boundary="([^"]+)"/.exec(whole.headers.get("content-type") ?? "")?.[1]
  if (boundary === undefined) throw new Error("not a mail of several parts")
  const parts = whole.body.split(`--${boundary}`).slice(1, -1).map(partOf)
  const ofType = (type: string) => {
    const found = parts.find(({ headers }) => headers.get("content-type")?.startsWith(type))
    if (!found) throw new Error(`a mail without ${type}`)
    return decoded(found.body, found.headers.get("content-transfer-encoding"))
  }
  const text = ofType("text/plain")
  const html = ofType("text/html")
  const [link, ...others] = text.match(/https?:\/\/\S+/g) ?? []
  if (link === undefined || others.length > 0) throw new Error("a mail without its one link")
  return {
    to: envelope.rcptTo.map(({ address }) => address),
    headers: whole.headers,
    subject: decodedWords(whole.headers.get("subject") ?? ""),
    text,
    html,
    link,
    token: link.slice(link.indexOf("#") + 1),
  }
}

function partOf(raw: string): { headers: Map<string, string>; body: string } {
  const start = raw.replace(/^\r?\n/, "")
  const end = /\r?\n\r?\n/.exec(start)!
  const lines = start
    .slice(0, end.index)
    .replace(/\r?\n[ \t]+/g, " ")
    .split(/\r?\n/)
  const headers = new Map<string, string>()
  for (const line of lines) {
    const name = line.slice(0, line.indexOf(":")).toLowerCase()
    if (headers.has(name)) throw new Error(`two headers ${name}`)
    headers.set(name, line.slice(line.indexOf(":") + 1).trim())
  }
  return { headers, body: start.slice(end.index + end[0].length) }
}

function decoded(body: string, encoding = "7bit"): string {
  if (encoding === "base64") return Buffer.from(body, "base64").toString()
  if (encoding === "quoted-printable") return quoted(body.replace(/=\r?\n/g, ""))
  return body
}

const quoted = (text: string) =>
  Buffer.from(
    text.replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
    "latin1",
  ).toString()

/** Encoded words of a header (RFC 2047). */
const decodedWords = (text: string) =>
  text
    .replace(/\?=\s+=\?/g, "?==?")
    .replace(/=\?utf-8\?([QB])\?([^?]*)\?=/gi, (_, kind: string, word: string) =>
      kind.toUpperCase() === "B" ? Buffer.from(word, "base64").toString() : quoted(word.replaceAll("_", " ")),
    )
