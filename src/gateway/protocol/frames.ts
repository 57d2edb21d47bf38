import { encode } from "@msgpack/msgpack"
import { closeCodes, opcodes, type ClientOp, type CloseName, type ServerOp } from "../../contract/core/gateway-codes.ts"
import { deflated, inflated, isDeflated } from "./compression.ts"
import { readMessagePack } from "./message-pack.ts"

/** The encoding that the URL asks for. */
export type PlainEncoding = "json" | "msgpack"
/** With `-zlib` each frame is a part of one zlib stream. */
export type Encoding = PlainEncoding | `${PlainEncoding}-zlib`

const isMessagePack = (encoding: Encoding): boolean => encoding.startsWith("msgpack")
export const isCompressed = (encoding: Encoding): boolean => encoding.endsWith("-zlib")
export const compressed = (encoding: PlainEncoding): Encoding => `${encoding}-zlib`

/** What a socket is sent: text for JSON, bytes for all other encodings. */
export type Payload = string | Uint8Array

/**
 * A dispatch in each encoding that a session uses. Each encoding is made once for all receivers.
 */
export class Frame {
  readonly name: string
  readonly s: number
  readonly #d: string
  readonly #made: { [E in Encoding]?: Payload } = {}

  /** `d` is JSON. */
  constructor(name: string, s: number, d: string) {
    this.name = name
    this.s = s
    this.#d = d
  }

  in(encoding: Encoding): Payload {
    return (this.#made[encoding] ??= this.#make(encoding))
  }

  #make(encoding: Encoding): Payload {
    switch (encoding) {
      case "json":
        return `{"op":0,"t":"${this.name}","s":${this.s},"d":${this.#d}}`
      case "msgpack":
        return encode({ op: opcodes.DISPATCH.op, t: this.name, s: this.s, d: JSON.parse(this.#d) as unknown })
      case "json-zlib":
        return deflated(this.in("json"))
      case "msgpack-zlib":
        return deflated(this.in("msgpack"))
    }
  }
}

/** A frame that is not a dispatch. */
export const plainFrame = (encoding: Encoding, name: ServerOp, d: unknown): Payload =>
  encoded(encoding, { op: opcodes[name].op, d })

function encoded(encoding: Encoding, frame: object): Payload {
  const plain = isMessagePack(encoding) ? encode(frame) : JSON.stringify(frame)
  return isCompressed(encoding) ? deflated(plain) : plain
}

const ack = { op: opcodes.HEARTBEAT_ACK.op }
/** HEARTBEAT_ACK has no `d`, so it is the same for everybody. */
export const heartbeatAck: { readonly [E in Encoding]: Payload } = {
  json: encoded("json", ack),
  msgpack: encoded("msgpack", ack),
  "json-zlib": encoded("json-zlib", ack),
  "msgpack-zlib": encoded("msgpack-zlib", ack),
}

/**
 * The gateway does not understand a client's frame, or must not accept it: the connection closes.
 */
export class FrameRefused extends Error {
  readonly close: CloseName
  constructor(close: CloseName) {
    super(closeCodes[close].reason)
    this.close = close
  }
}

export interface ClientFrame {
  readonly op: ClientOp
  readonly d: unknown
}

const clientOps = new Map<unknown, ClientOp>(
  Object.entries(opcodes).flatMap(([name, { op, from }]) =>
    from === "client" || from === "both" ? [[op, name as ClientOp]] : [],
  ),
)
const utf8 = new TextDecoder("utf-8", { fatal: true })

export interface FrameBounds {
  /** Bytes of a frame as it is received. */
  readonly maxBytes: number
  /** Bytes that a compressed frame may hold. */
  readonly maxInflatedBytes: number
}

/** How `JSON.stringify` begins a heartbeat, before the position. */
const heartbeatHead = new TextEncoder().encode(`{"op":${opcodes.HEARTBEAT.op},"d":`)
const nullText = new TextEncoder().encode("null")
/** Of the largest whole number that is exact. */
const maxDigits = 16
const [zero, nine, brace] = [0x30, 0x39, 0x7d]

/**
 * The `d` of a heartbeat in JSON as most clients write it: nearly all that quiet sessions send, so it is not decoded and
 * parsed.
 * @returns undefined for whatever else, a heartbeat that is written in another way included
 */
export function heartbeatIn(message: ArrayBuffer): number | null | undefined {
  const from = heartbeatHead.length
  const to = message.byteLength - 1
  if (to <= from || to > from + maxDigits) return undefined
  const bytes = new Uint8Array(message)
  if (bytes[to] !== brace || !isAt(0, heartbeatHead, bytes)) return undefined
  if (bytes[from] === nullText[0])
    return to === from + nullText.length && isAt(from, nullText, bytes) ? null : undefined
  // JSON has no number that begins with a zero.
  if (bytes[from] === zero && to > from + 1) return undefined
  let position = 0
  for (let at = from; at < to; at++) {
    const digit = bytes[at]!
    if (digit < zero || digit > nine) return undefined
    position = position * 10 + (digit - zero)
  }
  return position
}

function isAt(from: number, text: Uint8Array, bytes: Uint8Array): boolean {
  for (let i = 0; i < text.length; i++) if (bytes[from + i] !== text[i]) return false
  return true
}

/** The content of a client's message, inflated if it is compressed. */
export function messageOf(message: ArrayBuffer, isBinary: boolean, bounds: FrameBounds) {
  if (message.byteLength > bounds.maxBytes) throw new FrameRefused("decode_error")
  const bytes = new Uint8Array(message)
  const wasCompressed = isBinary && isDeflated(bytes)
  return {
    bytes: wasCompressed ? understood(() => inflated(bytes, bounds.maxInflatedBytes)) : bytes,
    wasCompressed,
  }
}

/**
 * Reads a client's frame. Text is JSON. Binary is MessagePack on a connection with that encoding,
 * else JSON in UTF-8.
 * @returns undefined for a frame that is ignored
 */
export function readFrame(bytes: Uint8Array, isBinary: boolean, encoding: PlainEncoding): ClientFrame | undefined {
  const value = understood(() =>
    isBinary && encoding === "msgpack" ? readMessagePack(bytes) : (JSON.parse(utf8.decode(bytes)) as unknown),
  )
  if (value === null) return undefined
  if (typeof value !== "object" || Array.isArray(value)) throw new FrameRefused("decode_error")
  const { op, d } = value as { op?: unknown; d?: unknown }
  if (op === undefined || op === null) throw new FrameRefused("decode_error")
  const name = clientOps.get(op)
  if (name === undefined) throw new FrameRefused("unknown_opcode")
  return { op: name, d }
}

function understood<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw Object.assign(new FrameRefused("decode_error"), { cause: error })
  }
}
