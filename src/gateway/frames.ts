import { decode, encode } from "@msgpack/msgpack"
import { closeCodes, opcodes, type ClientOp, type CloseName, type ServerOp } from "../contract/gateway-codes.ts"

export type Encoding = "json" | "msgpack"

/** What a socket is sent: text for JSON, bytes for MessagePack. */
export type Payload = string | Uint8Array

/** A dispatch in each encoding that somebody listens in; made once, whoever receives it. */
export class Frame {
  readonly name: string
  readonly s: number
  readonly #d: string
  #json: string | undefined
  #msgpack: Uint8Array | undefined

  /** `d` is JSON. */
  constructor(name: string, s: number, d: string) {
    this.name = name
    this.s = s
    this.#d = d
  }

  in(encoding: Encoding): Payload {
    if (encoding === "json") return (this.#json ??= `{"op":0,"t":"${this.name}","s":${this.s},"d":${this.#d}}`)
    return (this.#msgpack ??= encode({
      op: opcodes.DISPATCH.op,
      t: this.name,
      s: this.s,
      d: JSON.parse(this.#d) as unknown,
    }))
  }
}

/** A frame that is no dispatch. */
export function plainFrame(encoding: Encoding, name: ServerOp, d?: unknown): Payload {
  const { op } = opcodes[name]
  const frame = d === undefined ? { op } : { op, d }
  return encoding === "json" ? JSON.stringify(frame) : encode(frame)
}

/** A client's frame that the gateway does not understand, or must not accept: the connection closes. */
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

/**
 * Reads a client's frame. Text is JSON; binary is MessagePack on such a connection, else JSON in UTF-8.
 * @returns undefined for what is to be ignored
 */
export function readFrame(
  message: ArrayBuffer,
  isBinary: boolean,
  encoding: Encoding,
  maxBytes: number,
): ClientFrame | undefined {
  if (message.byteLength > maxBytes) throw new FrameRefused("decode_error")
  let value: unknown
  try {
    value =
      isBinary && encoding === "msgpack"
        ? decode(new Uint8Array(message))
        : (JSON.parse(utf8.decode(message)) as unknown)
  } catch (error) {
    throw Object.assign(new FrameRefused("decode_error"), { cause: error })
  }
  if (value === null) return undefined
  if (typeof value !== "object" || Array.isArray(value)) throw new FrameRefused("decode_error")
  const { op, d } = value as { op?: unknown; d?: unknown }
  if (op === undefined || op === null) throw new FrameRefused("decode_error")
  const name = clientOps.get(op)
  if (name === undefined) throw new FrameRefused("unknown_opcode")
  return { op: name, d }
}
