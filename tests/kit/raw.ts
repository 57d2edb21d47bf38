import { decode } from "@msgpack/msgpack"
import { inflatePiece } from "../../client/node-inflate.ts"
import { NodeWebSocket } from "../../bench/load/node-websocket.ts"
import type { ServerFrame } from "../../client/gateway.ts"
import { closeCodes, type CloseName } from "../../src/contract/core/gateway-codes.ts"
import { watchFrames } from "./conformance.ts"
import type { Endpoint } from "./person.ts"
import { until } from "./until.ts"

export interface RawOptions {
  query?: string
  headers?: Record<string, string>
  /** Said as soon as the socket is open, before HELLO was read. */
  first?: object
}

/** A socket without manners: it says what it is told to and keeps what it hears. */
export class Raw {
  readonly frames: ServerFrame[] = []
  readonly kinds: ("text" | "binary")[] = []
  /** Each message as it came; of text its characters. */
  readonly messages: (string | Uint8Array)[] = []
  readonly opened: Promise<void>
  readonly ended: Promise<{ code: number; reason: string }>
  error: Error | undefined
  /** How it was closed, once it is. */
  closing: { code: number; reason: string } | undefined
  readonly #socket: NodeWebSocket
  readonly #watch = watchFrames()
  #isPostponing = false
  #decoded = 0
  /** Of a compressed stream, so far. */
  #pieces = 0

  constructor({ url }: Endpoint, { query = "", headers = {}, first }: RawOptions = {}) {
    const socket = new NodeWebSocket(`${url.replace("http", "ws")}/gateway${query}`, undefined, { headers })
    this.#socket = socket
    /* oxlint-disable unicorn/prefer-add-event-listener */
    this.opened = new Promise(resolve => {
      socket.onopen = () => {
        if (first) this.say(first)
        resolve()
      }
    })
    socket.onmessage = ({ data }) => {
      this.kinds.push(typeof data === "string" ? "text" : "binary")
      this.messages.push(typeof data === "string" ? data : Uint8Array.from(data))
      if (!this.#isPostponing) this.catchUp()
    }
    socket.onerror = ({ error }) => (this.error = error)
    this.ended = new Promise(resolve => {
      socket.onclose = ({ code, reason }) => {
        this.#watch.closed(code, reason)
        this.closing = { code, reason }
        resolve(this.closing)
      }
    })
    /* oxlint-enable unicorn/prefer-add-event-listener */
  }

  /** From now on messages are only kept: nothing of the test's own takes time while something is measured. */
  postpone(): void {
    this.#isPostponing = true
  }
  /** Makes frames of the messages that were only kept. */
  catchUp(): void {
    this.#isPostponing = false
    while (this.#decoded < this.messages.length) {
      const data = this.messages[this.#decoded++]!
      const frame = (typeof data === "string" ? JSON.parse(data) : this.#decode(data)) as ServerFrame
      this.frames.push(frame)
      this.#watch.received(frame)
    }
  }

  /** Neither JSON nor a MessagePack object begins as a zlib stream does. */
  #decode(data: Uint8Array): unknown {
    const begins = this.#pieces === 0 && data[0] === 0x78
    if (!begins && this.#pieces === 0) return decode(data)
    this.#pieces++
    const plain = inflatePiece(begins ? data.subarray(2) : data)
    return plain[0] === 0x7b ? JSON.parse(Buffer.from(plain).toString()) : decode(plain)
  }

  /** An object goes as JSON. */
  say(frame: object | string | Uint8Array): void {
    this.#watch.sent(frame)
    this.#socket.send(typeof frame === "string" || frame instanceof Uint8Array ? frame : JSON.stringify(frame))
  }

  async hear(is: (frame: ServerFrame) => boolean): Promise<ServerFrame> {
    await until("the frame comes", () => this.frames.some(is) || this.closing !== undefined, {
      timeoutMs: 20_000,
      everyMs: 1,
    })
    const frame = this.frames.find(is)
    if (!frame) throw new Error(`closed with ${this.closing!.code} ${this.closing!.reason} before the frame came`)
    return frame
  }
  op = (op: number) => this.hear(frame => frame.op === op)
  event = (name: string) => this.hear(frame => frame.t === name)

  /** Reads nothing more. */
  pause(): void {
    this.#socket.pause()
  }
  unpause(): void {
    this.#socket.resume()
  }

  close(): void {
    this.#socket.terminate()
  }
}

/** An open socket that has heard HELLO. */
export async function open(endpoint: Endpoint, options?: RawOptions): Promise<Raw> {
  const raw = new Raw(endpoint, options)
  await raw.op(10)
  return raw
}
export async function identified(
  endpoint: Endpoint,
  token: string,
  options?: RawOptions & { d?: object },
): Promise<Raw> {
  const raw = await open(endpoint, options)
  raw.say({ op: 2, d: { token, ...options?.d } })
  await raw.event("READY")
  return raw
}
export const closedWith = (name: CloseName) => ({ code: closeCodes[name].code, reason: closeCodes[name].reason })
