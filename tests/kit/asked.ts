/** What a server asks of PostgreSQL and of Redis, read from its connections as it goes by. */
import { createHash } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { basename } from "node:path"
import { fileURLToPath } from "node:url"
import { openRelay, type Relay } from "./relay.ts"

export interface Asked {
  /** The way to the services on which everything is counted. */
  readonly databaseUrl: string
  readonly redisUrl: string
  /** What was asked since the last call, in order: `redis append`, `redis mget`, `sql INSERT INTO messages …`. */
  take(): string[]
  /** Writes of clients since the last call: what goes out together is one. */
  takeWrites(): { readonly database: number; readonly redis: number }
  close(): Promise<void>
}

const scripts = fileURLToPath(new URL("../../src/cluster/lua/", import.meta.url))

/** The names of the program's scripts by what EVALSHA calls them; one that is made of several files has none. */
const scriptNames = new Map(
  readdirSync(scripts).map(file => [
    createHash("sha1")
      .update(readFileSync(`${scripts}${file}`))
      .digest("hex"),
    basename(file, ".lua"),
  ]),
)

export async function countAsked(services: { databaseUrl: string; redisUrl: string }): Promise<Asked> {
  let asked: string[] = []
  let writes = { database: 0, redis: 0 }
  const note = (what: string) => void asked.push(what)
  const [database, redis] = await Promise.all([
    relay(services.databaseUrl, () => {
      const read = statementReader(text => note(`sql ${text}`))
      return bytes => {
        writes.database++
        read(bytes)
      }
    }),
    relay(services.redisUrl, () => {
      const read = commandReader(words => note(`redis ${nameOf(words)}`))
      return bytes => {
        writes.redis++
        read(bytes)
      }
    }),
  ])
  return {
    databaseUrl: database.url,
    redisUrl: redis.url,
    take() {
      const all = asked
      asked = []
      return all
    },
    takeWrites() {
      const all = writes
      writes = { database: 0, redis: 0 }
      return all
    },
    async close() {
      await Promise.all([database.close(), redis.close()])
    },
  }
}

function nameOf([name = "", script = ""]: readonly string[]): string {
  const lower = name.toLowerCase()
  return lower === "evalsha" || lower === "eval" ? (scriptNames.get(script) ?? "a composed script") : lower
}

/** Passes bytes on in both directions and shows what the clients say. */
const relay = (target: string, reader: () => (bytes: Buffer) => void): Promise<Relay> =>
  openRelay(target, () => {
    const read = reader()
    return {
      up(bytes) {
        read(bytes)
        return bytes
      },
      down: bytes => bytes,
    }
  })

/** Arrays of bulk strings, which is all that clients of Redis send. */
function commandReader(note: (words: readonly string[]) => void): (bytes: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return bytes => {
    rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes])
    for (;;) {
      const words: string[] = []
      let at = 0
      const count = () => {
        const end = rest.indexOf("\r\n", at)
        if (end < 0) return undefined
        const value = Number(rest.toString("latin1", at + 1, end))
        at = end + 2
        return value
      }
      const expected = count()
      if (expected === undefined) return
      while (words.length < expected) {
        const length = count()
        if (length === undefined || rest.length < at + length + 2) return
        words.push(rest.toString("utf8", at, at + length))
        at += length + 2
      }
      rest = rest.subarray(at)
      note(words)
    }
  }
}

/** The extended protocol of PostgreSQL: a statement counts each time it is bound. */
function statementReader(note: (text: string) => void): (bytes: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  let isStarted = false
  const texts = new Map<string, string>()
  const textAt = (from: number) => {
    const end = rest.indexOf(0, from)
    return { text: rest.toString("utf8", from, end), next: end + 1 }
  }
  return bytes => {
    rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes])
    for (;;) {
      // The first message has a length and no type.
      const head = isStarted ? 1 : 0
      if (rest.length < head + 4) return
      const size = head + rest.readUInt32BE(head)
      if (rest.length < size) return
      const type = isStarted ? String.fromCharCode(rest[0]!) : ""
      if (type === "P") {
        const name = textAt(5)
        texts.set(name.text, textAt(name.next).text)
      } else if (type === "B") note(shortOf(texts.get(textAt(textAt(5).next).text) ?? "?"))
      else if (type === "Q") note(shortOf(textAt(5).text))
      isStarted = true
      rest = rest.subarray(size)
    }
  }
}

const shortOf = (sql: string): string => sql.replaceAll(/\s+/g, " ").trim().slice(0, 60)
