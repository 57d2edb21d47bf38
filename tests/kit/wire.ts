/** WebSocket by the byte, for clients that do what no library does. */
import { randomBytes } from "node:crypto"
import { connect, type Socket } from "node:net"
import type { Endpoint } from "./person.ts"
import { until } from "./until.ts"

export const opcode = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const

interface FrameOptions {
  fin?: boolean
  /** Reserved bits, as they stand in the first byte. */
  reserved?: number
  masked?: boolean
  /** What the header says, where it is not so. */
  length?: bigint
}
/** One frame as it goes over the wire. */
export function frame(kind: number, content: string | Uint8Array = "", options: FrameOptions = {}): Buffer {
  const { fin = true, reserved = 0, masked = true } = options
  const payload = Buffer.from(content)
  const length = options.length ?? BigInt(payload.length)
  const head = [(fin ? 0x80 : 0) | reserved | kind]
  const bit = masked ? 0x80 : 0
  if (length < 126n) head.push(bit | Number(length))
  else if (length < 65_536n) head.push(bit | 126, Number(length) >> 8, Number(length) & 0xff)
  else {
    const long = Buffer.alloc(8)
    long.writeBigUInt64BE(length)
    head.push(bit | 127, ...long)
  }
  if (!masked) return Buffer.concat([Buffer.from(head), payload])
  const mask = randomBytes(4)
  return Buffer.concat([Buffer.from(head), mask, payload.map((byte, i) => byte ^ mask[i & 3]!)])
}

export const upgradeLines = (headers: readonly string[] = []) =>
  [
    "GET /gateway HTTP/1.1",
    "Host: localhost",
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
    ...headers,
    "",
    "",
  ].join("\r\n")

/** A TCP connection and all that came on it. */
export class Wire {
  readonly socket: Socket
  received = Buffer.alloc(0)
  readonly ended: Promise<void>
  isEnded = false

  constructor({ url }: Endpoint) {
    this.socket = connect(Number(new URL(url).port), "127.0.0.1")
    this.socket.on("error", () => {})
    this.socket.on("data", piece => (this.received = Buffer.concat([this.received, piece])))
    this.ended = new Promise(resolve => {
      this.socket.on("end", () => this.socket.destroy())
      this.socket.on("close", () => {
        this.isEnded = true
        resolve()
      })
    })
  }
  write(bytes: Uint8Array | string): void {
    this.socket.write(bytes)
  }
  get text(): string {
    return this.received.toString("latin1")
  }
  hears(text: string): Promise<void> {
    return until(`${text} comes`, () => this.text.includes(text), { timeoutMs: 5_000 })
  }
  close(): void {
    this.socket.destroy()
  }
}

/** Upgraded, and HELLO is there. */
export async function upgraded(place: Endpoint, headers?: readonly string[]): Promise<Wire> {
  const wire = new Wire(place)
  wire.write(upgradeLines(headers))
  await wire.hears('{"op":10')
  return wire
}
