import { isUtf8 } from "node:buffer"
import { createHash, randomBytes, randomFillSync } from "node:crypto"
import { connect } from "node:net"
import type { Socket } from "node:net"
import { connect as connectTls, TLSSocket } from "node:tls"

/**
 * A WebSocket client (RFC 6455) for Node 20, which has none without a flag. It has the browser's
 * handlers, so that the gateway client cannot tell the two apart. Frames are read straight out of
 * the bytes that the kernel wrote: a frame that arrived whole costs its decoded payload and nothing
 * else. It can go when the floor is Node 22, whose own client is stable.
 */
export interface NodeWebSocketOptions {
  headers?: Record<string, string>
  /** The largest message we take; above it the connection closes with 1009. */
  maxBytes?: number
  /** From connecting to the end of the handshake. */
  timeoutMs?: number
  /**
   * Hand over text as bytes too, unchecked: for a benchmark that only counts. The bytes hold only
   * during the handler.
   */
  textAsBytes?: boolean
  /**
   * The address to connect from: one address has no more than some 28,000 ports towards one server.
   */
  localAddress?: string
}

export interface NodeMessage {
  /** Text, or a view of bytes that holds **only during the handler**: copy what is to stay. */
  data: string | Uint8Array
}

export interface NodeClose {
  code: number
  reason: string
  wasClean: boolean
}

const protocolGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
const largestHandshake = 16 * 1024
const closeTimeoutMs = 3_000

const opcode = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const

// One read buffer for every plain connection: libuv fills it and calls us in one go, so nobody else
// sees it in between. On Windows a read is posted ahead and owns its buffer.
const readBytes = 256 * 1024
const shared = process.platform === "win32" ? undefined : Buffer.allocUnsafeSlow(readBytes)

// Masks need to be unforeseeable (RFC 6455 §10.3); drawing 4 bytes at a time would cost more than
// the frame.
const masks = Buffer.allocUnsafeSlow(8 * 1024)
let masksUsed = masks.length

export class NodeWebSocket {
  static readonly CONNECTING = 0
  static readonly OPEN = 1
  static readonly CLOSING = 2
  static readonly CLOSED = 3

  readonly url: string
  readyState: number = NodeWebSocket.CONNECTING
  /** Of no effect, bytes come as a view; here because the browser's socket wants to be told. */
  binaryType = "arraybuffer"
  onopen: (() => void) | null = null
  onmessage: ((message: NodeMessage) => void) | null = null
  onclose: ((close: NodeClose) => void) | null = null
  /** Always followed by `onclose`. */
  onerror: ((failure: { error: Error }) => void) | null = null

  readonly #socket: Socket
  readonly #maxBytes: number
  readonly #textAsBytes: boolean
  readonly #accept: string
  readonly #deadline: NodeJS.Timeout
  #closeDeadline: NodeJS.Timeout | undefined

  #handshake: Buffer | undefined = Buffer.alloc(0)
  /** The beginning of a header that a read cut off, and of a payload. */
  readonly #header = Buffer.allocUnsafe(14)
  #headerLength = 0
  #first = 0
  #payload: Buffer | undefined
  #payloadLength = 0
  /** A message in several frames. */
  #fragments: Buffer[] = []
  #fragmentBytes = 0
  #fragmentOpcode = 0

  #closeCode = 1006
  #closeReason = ""
  #closeReceived = false
  #closeSent = false
  #broken = false
  /** One for all messages; the handler reads `data` and lets go. */
  readonly #message: NodeMessage = { data: "" }

  constructor(url: string | URL, _protocols?: string | string[], options: NodeWebSocketOptions = {}) {
    const { protocol, hostname, port, host, pathname, search, href } = new URL(url)
    if (protocol !== "ws:" && protocol !== "wss:") throw new SyntaxError(`not a WebSocket URL: ${href}`)
    this.url = href
    this.#maxBytes = options.maxBytes ?? 16 * 1024 * 1024
    this.#textAsBytes = options.textAsBytes ?? false

    const key = randomBytes(16).toString("base64")
    this.#accept = createHash("sha1")
      .update(key + protocolGuid)
      .digest("base64")
    const lines = [
      `GET ${pathname}${search} HTTP/1.1`,
      `Host: ${host}`,
      "Upgrade: websocket",
      "Connection: Upgrade",
      `Sec-WebSocket-Key: ${key}`,
      "Sec-WebSocket-Version: 13",
      ...Object.entries(options.headers ?? {}).map(([name, value]) => `${name}: ${value}`),
    ]
    if (lines.some(line => /[\r\n]/.test(line))) throw new SyntaxError("a header may not hold a line break")
    const request = `${lines.join("\r\n")}\r\n\r\n`

    // A literal IPv6 address stands in brackets in a URL, and without them everywhere else.
    const address = hostname.replace(/^\[|\]$/g, "")
    const from = options.localAddress === undefined ? {} : { localAddress: options.localAddress }
    const onread = {
      buffer: shared ?? Buffer.allocUnsafeSlow(readBytes),
      callback: (length: number, buffer: Uint8Array) => {
        this.#read(buffer as Buffer, length)
        return true
      },
    }
    if (protocol === "ws:") {
      this.#socket = connect({ host: address, port: Number(port) || 80, onread, ...from })
      this.#socket.once("connect", () => this.#socket.write(request))
    } else {
      const secure = connectTls({ host: address, port: Number(port) || 443, servername: address, ...from })
      secure.once("secureConnect", () => secure.write(request))
      secure.on("data", (chunk: Buffer) => this.#read(chunk, chunk.length))
      this.#socket = secure
    }
    this.#socket.setNoDelay(true)
    this.#socket.on("error", error => this.#fail(error))
    this.#socket.on("end", () => this.#socket.destroy())
    this.#socket.once("close", () => this.#closed())
    this.#deadline = setTimeout(() => this.#fail(new Error("the handshake took too long")), options.timeoutMs ?? 30_000)
  }

  get bufferedAmount(): number {
    return this.#socket.writableLength
  }

  send(data: string | Uint8Array): void {
    if (this.readyState === NodeWebSocket.CONNECTING) throw new Error("the socket is not open yet")
    if (this.readyState !== NodeWebSocket.OPEN) return
    if (typeof data === "string") this.#write(opcode.text, Buffer.from(data))
    else this.#write(opcode.binary, data)
  }

  ping(data: Uint8Array = new Uint8Array()): void {
    if (this.readyState === NodeWebSocket.OPEN) this.#write(opcode.ping, data)
  }

  /** Says goodbye and waits for the answer, at most three seconds. */
  close(code?: number, reason = ""): void {
    if (this.readyState >= NodeWebSocket.CLOSING) return
    if (this.readyState === NodeWebSocket.CONNECTING) {
      this.terminate()
      return
    }
    this.#goodbye(code, reason)
  }

  /** Drops the connection without a close frame, as a lost network would. */
  terminate(): void {
    if (this.readyState === NodeWebSocket.CLOSED) return
    const wasOpen = this.readyState !== NodeWebSocket.CONNECTING
    this.readyState = NodeWebSocket.CLOSING
    // A reset also throws away what is still on its way; a connecting or a TLS socket cannot send
    // one.
    if (wasOpen && !(this.#socket instanceof TLSSocket)) this.#socket.resetAndDestroy()
    else this.#socket.destroy()
  }

  /** Stops reading, so that the server sees a slow reader. */
  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  #read(bytes: Buffer, length: number): void {
    try {
      if (this.#handshake) this.#readHandshake(bytes.subarray(0, length))
      else this.#readFrames(bytes, 0, length)
    } catch (cause) {
      if (!(cause instanceof ProtocolError)) throw cause
      this.#fail(cause)
    }
  }

  #readHandshake(bytes: Buffer): void {
    const seen = Buffer.concat([this.#handshake ?? Buffer.alloc(0), bytes])
    const end = seen.indexOf("\r\n\r\n")
    if (end < 0) {
      if (seen.length > largestHandshake) throw new ProtocolError(1002, "the handshake is too large")
      this.#handshake = seen
      return
    }
    this.#handshake = undefined
    const [status = "", ...lines] = seen.toString("latin1", 0, end).split("\r\n")
    if (!/^HTTP\/1\.1 101( |$)/.test(status)) throw new ProtocolError(1002, `the server refused the upgrade: ${status}`)
    const header = (name: string) =>
      lines
        .find(line => line.toLowerCase().startsWith(`${name}:`))
        ?.slice(name.length + 1)
        .trim()
    if (header("upgrade")?.toLowerCase() !== "websocket" || !/\bupgrade\b/i.test(header("connection") ?? "")) {
      throw new ProtocolError(1002, "the server did not upgrade")
    }
    if (header("sec-websocket-accept") !== this.#accept) throw new ProtocolError(1002, "Sec-WebSocket-Accept is wrong")
    if (header("sec-websocket-extensions"))
      throw new ProtocolError(1002, "the server chose an extension that nobody offered")

    clearTimeout(this.#deadline)
    this.readyState = NodeWebSocket.OPEN
    this.onopen?.()
    this.#readFrames(seen, end + 4, seen.length)
  }

  #readFrames(bytes: Buffer, start: number, end: number): void {
    let at = start
    while (at < end && !this.#closeReceived && !this.#broken) {
      if (this.#payload) {
        const taken = Math.min(end - at, this.#payload.length - this.#payloadLength)
        bytes.copy(this.#payload, this.#payloadLength, at, at + taken)
        this.#payloadLength += taken
        at += taken
        if (this.#payloadLength < this.#payload.length) return
        const payload = this.#payload
        this.#payload = undefined
        this.#frame(this.#first, payload, 0, payload.length)
        continue
      }

      let source = bytes
      let head = at
      if (this.#headerLength > 0 || end - at < 2 || end - at < headerSize(bytes[at + 1]!)) {
        // The header straddles two reads: gather it beside.
        this.#header[this.#headerLength++] = bytes[at++]!
        if (this.#headerLength < 2 || this.#headerLength < headerSize(this.#header[1]!)) continue
        this.#headerLength = 0
        source = this.#header
        head = 0
      } else {
        at += headerSize(bytes[at + 1]!)
      }

      const first = source[head]!
      const size = payloadSize(source, head)
      this.#admit(first, source[head + 1]!, size)
      if (size <= end - at) {
        const from = at
        at += size
        this.#frame(first, bytes, from, from + size)
      } else {
        this.#first = first
        this.#payload = Buffer.allocUnsafe(size)
        this.#payloadLength = 0
      }
    }
  }

  /** Everything that makes a header wrong, before its payload takes memory. */
  #admit(first: number, second: number, size: number): void {
    const kind = first & 0x0f
    if (first & 0x70) throw new ProtocolError(1002, "a reserved bit is set")
    if (second & 0x80) throw new ProtocolError(1002, "a server's frame is masked")
    if (kind >= opcode.close) {
      if (kind > opcode.pong) throw new ProtocolError(1002, "unknown opcode")
      if (!(first & 0x80) || size > 125) throw new ProtocolError(1002, "a control frame is fragmented or too long")
      return
    }
    if (kind > opcode.binary) throw new ProtocolError(1002, "unknown opcode")
    if ((kind === opcode.continuation) !== (this.#fragmentOpcode !== 0)) {
      throw new ProtocolError(1002, "a continuation is missing or comes out of turn")
    }
    if (size + this.#fragmentBytes > this.#maxBytes) throw new ProtocolError(1009, "a message is too big")
  }

  #frame(first: number, bytes: Buffer, start: number, end: number): void {
    const kind = first & 0x0f
    if (kind >= opcode.close) {
      this.#control(kind, bytes, start, end)
      return
    }
    if (first & 0x80 && kind !== opcode.continuation) {
      this.#deliver(kind, bytes, start, end)
      return
    }
    this.#fragments.push(Buffer.from(bytes.subarray(start, end)))
    this.#fragmentBytes += end - start
    if (kind !== opcode.continuation) this.#fragmentOpcode = kind
    if (!(first & 0x80)) return
    const whole = Buffer.concat(this.#fragments, this.#fragmentBytes)
    const wholeKind = this.#fragmentOpcode
    this.#fragments = []
    this.#fragmentBytes = 0
    this.#fragmentOpcode = 0
    this.#deliver(wholeKind, whole, 0, whole.length)
  }

  #deliver(kind: number, bytes: Buffer, start: number, end: number): void {
    if (this.readyState !== NodeWebSocket.OPEN || !this.onmessage) return
    const view = bytes.subarray(start, end)
    if (kind === opcode.binary || this.#textAsBytes) {
      this.#message.data = view
    } else {
      if (!isUtf8(view)) throw new ProtocolError(1007, "text is not UTF-8")
      this.#message.data = view.toString("utf8")
    }
    this.onmessage(this.#message)
  }

  #control(kind: number, bytes: Buffer, start: number, end: number): void {
    if (kind === opcode.ping) {
      if (this.readyState === NodeWebSocket.OPEN) this.#write(opcode.pong, bytes.subarray(start, end))
      return
    }
    if (kind === opcode.pong) return

    this.#closeReceived = true
    const size = end - start
    if (size === 1) throw new ProtocolError(1002, "a close frame of one byte")
    this.#closeCode = size === 0 ? 1005 : bytes.readUInt16BE(start)
    this.#closeReason = size > 2 ? bytes.toString("utf8", start + 2, end) : ""
    this.#goodbye(size === 0 ? undefined : this.#closeCode, "")
    // The server ends the connection (RFC 6455 §7.1.1); if it does not, the deadline of #goodbye
    // does.
    this.#socket.end()
  }

  #goodbye(code: number | undefined, reason: string): void {
    this.readyState = NodeWebSocket.CLOSING
    if (!this.#closeSent) {
      this.#closeSent = true
      const text = Buffer.from(reason).subarray(0, 123)
      const payload = Buffer.allocUnsafe(code === undefined ? 0 : 2 + text.length)
      if (code !== undefined) {
        payload.writeUInt16BE(code)
        text.copy(payload, 2)
      }
      this.#write(opcode.close, payload)
    }
    this.#closeDeadline ??= setTimeout(() => this.#socket.destroy(), closeTimeoutMs)
  }

  #write(kind: number, payload: Uint8Array): void {
    const size = payload.length
    const head = size < 126 ? 6 : size < 65_536 ? 8 : 14
    const frame = Buffer.allocUnsafe(head + size)
    frame[0] = 0x80 | kind
    if (size < 126) frame[1] = 0x80 | size
    else if (size < 65_536) {
      frame[1] = 0x80 | 126
      frame.writeUInt16BE(size, 2)
    } else {
      frame[1] = 0x80 | 127
      frame.writeUInt32BE(Math.floor(size / 2 ** 32), 2)
      frame.writeUInt32BE(size >>> 0, 6)
    }
    if (masksUsed === masks.length) {
      randomFillSync(masks)
      masksUsed = 0
    }
    const mask = masksUsed
    masksUsed += 4
    masks.copy(frame, head - 4, mask, mask + 4)
    for (let i = 0; i < size; i++) frame[head + i] = payload[i]! ^ masks[mask + (i & 3)]!
    this.#socket.write(frame)
  }

  #fail(error: Error): void {
    if (this.readyState === NodeWebSocket.CLOSED) return
    const wasOpen = this.readyState === NodeWebSocket.OPEN
    // A dropped connection after both sides said goodbye is no failure.
    if (this.readyState !== NodeWebSocket.CLOSING) this.onerror?.({ error })
    if (wasOpen && error instanceof ProtocolError) {
      this.#closeCode = error.code
      this.#closeReason = error.message
      this.#broken = true
      this.#goodbye(error.code, error.message)
      this.#socket.destroySoon()
    } else {
      this.readyState = NodeWebSocket.CLOSING
      this.#socket.destroy()
    }
  }

  #closed(): void {
    clearTimeout(this.#deadline)
    clearTimeout(this.#closeDeadline)
    this.readyState = NodeWebSocket.CLOSED
    const wasClean = this.#closeReceived && this.#closeSent
    this.onclose?.({ code: this.#closeCode, reason: this.#closeReason, wasClean })
  }
}

class ProtocolError extends Error {
  readonly code: number
  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

/** Of a frame without a mask, from its second byte. */
const headerSize = (second: number) => {
  const length = second & 0x7f
  return length < 126 ? 2 : length === 126 ? 4 : 10
}

function payloadSize(bytes: Buffer, at: number): number {
  const length = bytes[at + 1]! & 0x7f
  if (length < 126) return length
  if (length === 126) return (bytes[at + 2]! << 8) | bytes[at + 3]!
  return bytes.readUInt32BE(at + 2) * 2 ** 32 + bytes.readUInt32BE(at + 6)
}
