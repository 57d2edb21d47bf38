/**
 * How clients of other servers begin and what they read: as much of each protocol as a connection
 * needs that subscribes to one channel and counts what comes. Each connection has a dialect of its
 * own, as some keep the beginning of what a frame cut off.
 */

/** What a dialect has its connection do. */
export interface Connected {
  send(text: string): void
  /** The server has said that it is subscribed. */
  ready(): void
  /** One message of the channel; the bytes hold only during the call. */
  message(bytes: Buffer): void
}

export interface Dialect {
  /** Sent once the WebSocket is open. */
  readonly greeting: readonly string[]
  /** Takes what one WebSocket message brought. */
  take(bytes: Buffer, to: Connected): void
}

/** The channel that all are in. */
export const hall = "hall"

const dialects = {
  /** The server subscribes all who connect, and each WebSocket message is one of the channel. */
  bare: (): Dialect => ({ greeting: [], take: (bytes, to) => to.message(bytes) }),
  "socket.io": (): Dialect => ({ greeting: [], take: takeSocketIo }),
  centrifugo: (): Dialect => ({
    greeting: [`{"id":1,"connect":{}}\n{"id":2,"subscribe":{"channel":"${hall}"}}`],
    take: takeCentrifugo,
  }),
  nats: (): Dialect => new Nats(),
}
export type DialectName = keyof typeof dialects

export const newDialect = (name: DialectName): Dialect => dialects[name]()

const codeOf = (text: string) => text.charCodeAt(0)
const [newline, brace, endOfBrace] = ["\n", "{", "}"].map(codeOf) as [number, number, number]

/** Engine.IO 4 over WebSocket: a digit for the kind of packet, and another for Socket.IO's own. */
function takeSocketIo(bytes: Buffer, to: Connected): void {
  const kind = bytes.toString("latin1", 0, 2)
  if (kind === "42") to.message(bytes)
  else if (kind[0] === "0") to.send("40")
  else if (kind[0] === "2") to.send("3")
  else if (kind === "40") to.ready()
  else throw new Error(`Socket.IO said ${bytes.toString()}`)
}

const push = Buffer.from(`{"push":`)

/** JSON objects, one a line; an empty one asks whether the client is there. */
function takeCentrifugo(bytes: Buffer, to: Connected): void {
  for (let at = 0; at < bytes.length;) {
    const found = bytes.indexOf(newline, at)
    const end = found < 0 ? bytes.length : found
    const line = bytes.subarray(at, end)
    at = end + 1
    if (line.length === 0) continue
    if (line[0] === brace && line[1] === endOfBrace) to.send("{}")
    else if (line.subarray(0, push.length).equals(push)) to.message(line)
    else {
      const reply = JSON.parse(line.toString()) as { id?: number; error?: unknown; subscribe?: object }
      if (reply.error !== undefined) throw new Error(`Centrifugo said ${line.toString()}`)
      if (reply.subscribe) to.ready()
    }
  }
}

/** A stream of lines, some with a payload behind them; WebSocket messages cut it anywhere. */
class Nats implements Dialect {
  readonly greeting = []
  #rest: Buffer | undefined

  take(came: Buffer, to: Connected): void {
    const bytes = this.#rest ? Buffer.concat([this.#rest, came]) : came
    this.#rest = undefined
    let at = 0
    for (;;) {
      const end = bytes.indexOf(newline, at)
      if (end < 0) break
      const line = bytes.toString("latin1", at, end - 1)
      let next = end + 1
      if (line.startsWith("MSG ")) {
        const size = Number(line.slice(line.lastIndexOf(" ") + 1))
        // Its payload ends with a line break of two bytes.
        if (bytes.length < next + size + 2) break
        to.message(bytes.subarray(next, next + size))
        next += size + 2
      } else answerNats(line, to)
      at = next
    }
    // What came holds only during this call.
    if (at < bytes.length) this.#rest = Buffer.from(bytes.subarray(at))
  }
}

function answerNats(line: string, to: Connected): void {
  if (line.startsWith("INFO ")) to.send(`CONNECT {"verbose":false,"pedantic":false}\r\nSUB ${hall} 1\r\nPING\r\n`)
  else if (line === "PING") to.send("PONG\r\n")
  else if (line === "PONG") to.ready()
  else throw new Error(`NATS said ${line}`)
}
