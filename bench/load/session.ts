import { decode } from "@msgpack/msgpack"
import { inflatePiece } from "../../client/node-inflate.ts"
import { NodeWebSocket } from "./node-websocket.ts"
import { opcodes } from "../../src/contract/core/gateway-codes.ts"
import { newDialect } from "./dialects.ts"
import type { DialectName } from "./dialects.ts"

/** The server closed the connection. */
export class SessionClosed extends Error {
  override readonly name = "SessionClosed"
  readonly code: number
  constructor(code: number, reason: string) {
    super(`a session was closed: ${code} ${reason}`)
    this.code = code
  }
}

/** Where a session stands, for RESUME. */
export interface Place {
  id: string
  seq: number
}

export interface SessionOptions {
  url: string
  /**
   * Who identifies; left out for a bare server, where a connection that is open is all there is.
   */
  token: string | undefined
  localAddress: string | undefined
  /** What it asks for in IDENTIFY; the server's own choice when left out. */
  intents?: number | undefined
  compress?: boolean | undefined
  /** Says nothing before `identify()`. */
  waits?: boolean
  /** Goes on from there instead of beginning anew. */
  resume?: Place | undefined
  /** Knows where it stands, which costs a look at each frame. Frames are JSON. */
  keepsPlace?: boolean
  /** How another server is spoken to; left out, a bare one, or Starling where there is a token. */
  dialect?: DialectName | undefined
  /** Every frame of a session that is ready. The bytes hold only during the call. */
  onFrame: (bytes: Buffer) => void
  /** The connection of a session that was ready ended, and nobody here ended it. */
  onLost: (why: Error) => void
}

/** The server does not know the session any more. */
export class SessionRefused extends Error {
  override readonly name = "SessionRefused"
}

interface Frame {
  op: number
  t?: string
  s?: number
  d?: { session_id?: string }
}

/**
 * One connection to the gateway that looks into no frame once it is ready. `GatewayClient` would
 * parse each of them, which for a thousand sessions in one process costs more than the server takes
 * to send them.
 */
export class Session {
  /** The server has said HELLO. */
  readonly opened: Promise<void>
  readonly ready: Promise<void>
  /** Milliseconds from IDENTIFY or RESUME to its answer. */
  waited = 0
  readonly #socket: NodeWebSocket
  readonly #options: SessionOptions
  #state: "opening" | "ready" | "closed" = "opening"
  #askedAt = 0
  #place: Place | undefined

  constructor(options: SessionOptions) {
    const { url, token, localAddress, dialect, onFrame, onLost, waits = false, keepsPlace = false } = options
    const address = localAddress === undefined ? {} : { localAddress }
    const socket = new NodeWebSocket(url, [], { textAsBytes: true, ...address })
    this.#socket = socket
    this.#options = options
    this.#place = options.resume
    let open = () => undefined as void
    this.opened = new Promise(resolve => {
      open = resolve
    })
    this.ready = new Promise((resolve, reject) => {
      // A property costs `NodeWebSocket` one call per frame; it has no listeners.
      /* oxlint-disable unicorn/prefer-add-event-listener */
      const go = () => {
        this.#state = "ready"
        this.waited = performance.now() - this.#askedAt
        if (dialect !== undefined) return resolve()
        socket.onmessage = keepsPlace
          ? ({ data }) => {
              this.#note(data as Buffer)
              onFrame(data as Buffer)
            }
          : ({ data }) => onFrame(data as Buffer)
        resolve()
      }
      socket.onmessage = ({ data }) => {
        const frame = read(data as Buffer)
        if (frame.op === opcodes.HELLO.op) {
          open()
          if (!waits) this.identify()
        } else if (frame.op === opcodes.DISPATCH.op && (frame.t === "READY" || frame.t === "RESUMED")) {
          if (keepsPlace) this.#place = { id: frame.d?.session_id ?? this.#place!.id, seq: frame.s! }
          go()
        } else if (frame.op === opcodes.INVALID_SESSION.op)
          reject(new SessionRefused("the server refused to go on with a session"))
      }
      if (dialect !== undefined) this.#speak(dialect, go, reject)
      else if (token === undefined) socket.onopen = go
      socket.onerror = ({ error }) => reject(error)
      socket.onclose = ({ code, reason }) => {
        const why = new SessionClosed(code, reason)
        if (this.#state === "ready") {
          this.#state = "closed"
          onLost(why)
        } else reject(why)
      }
      /* oxlint-enable unicorn/prefer-add-event-listener */
    })
    // Callers who wait for one of the two learn of it from that one.
    this.ready.catch(() => undefined)
  }

  #speak(name: DialectName, ready: () => void, fail: (cause: Error) => void): void {
    const dialect = newDialect(name)
    const socket = this.#socket
    const { onFrame, onLost } = this.#options
    const to = { send: (text: string) => socket.send(text), ready, message: onFrame }
    /* oxlint-disable unicorn/prefer-add-event-listener */
    socket.onopen = () => {
      for (const text of dialect.greeting) socket.send(text)
    }
    socket.onmessage = ({ data }) => {
      try {
        dialect.take(data as Buffer, to)
      } catch (cause) {
        if (this.#state === "ready") onLost(cause as Error)
        else fail(cause as Error)
      }
    }
    /* oxlint-enable unicorn/prefer-add-event-listener */
  }

  /** IDENTIFY, or RESUME where there is something to go on with. */
  identify(): void {
    const { token, intents, compress, resume } = this.#options
    const kind = { ...(intents !== undefined && { intents }), ...(compress && { compress }) }
    this.#askedAt = performance.now()
    this.#send(
      resume
        ? { op: opcodes.RESUME.op, d: { token, session_id: resume.id, seq: resume.seq } }
        : { op: opcodes.IDENTIFY.op, d: { token, properties: {}, ...kind } },
    )
  }

  /** Undefined before READY, and of one that does not keep it. */
  get place(): Place | undefined {
    return this.#place
  }

  heartbeat(): void {
    if (this.#options.token !== undefined && this.#state === "ready") this.#send({ op: opcodes.HEARTBEAT.op, d: null })
  }

  /** Reads nothing more; what comes stays with the server and between. */
  pause(): void {
    this.#socket.pause()
  }

  unpause(): void {
    this.#socket.resume()
  }

  /** As when the network is gone: nobody here has ended it. */
  drop(): void {
    this.#socket.terminate()
  }

  /** Resets, so that no port is left waiting. */
  close(): void {
    this.#state = "closed"
    this.#socket.terminate()
  }

  #note(frame: Buffer): void {
    const at = frame.indexOf('"s":')
    if (at < 0) return
    let seq = 0
    for (let i = at + 4; frame[i]! >= 48 && frame[i]! <= 57; i++) seq = seq * 10 + frame[i]! - 48
    if (seq > 0) this.#place!.seq = seq
  }

  #send(frame: object): void {
    this.#socket.send(JSON.stringify(frame))
  }
}

/**
 * A frame in whatever encoding: neither JSON nor a MessagePack object begins as a zlib stream does.
 */
function read(data: Buffer): Frame {
  const plain = data[0] === 0x78 ? inflatePiece(data.subarray(2)) : data
  return (plain[0] === 0x7b ? JSON.parse(Buffer.from(plain).toString()) : decode(plain)) as Frame
}
