import { isUtf8 } from "node:buffer"
import { decode } from "@msgpack/msgpack"

/** Deeper than any frame that a client has a reason to send. */
const deepest = 32

/**
 * Reads one MessagePack value that JSON could express as well. The bytes are checked first: the
 * decoder allocates as many elements as a header promises, and few bytes can promise billions,
 * again at every depth. It refuses lengths that exceed the bytes, too much depth, extensions,
 * binary, keys that are not strings, text that is not UTF-8, and bytes after the value.
 */
export function readMessagePack(bytes: Uint8Array): unknown {
  check(bytes)
  return decode(bytes)
}

const malformed = () => new Error("MessagePack that is not understood")

/** An open map or array, and how many keys and values, or elements, are still to come. */
interface Open {
  readonly isMap: boolean
  left: number
}

function check(bytes: Uint8Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const open: Open[] = []
  let at = 0

  const need = (length: number): number => {
    const from = at
    at += length
    if (at > bytes.length) throw malformed()
    return from
  }
  const length = (size: 1 | 2 | 4): number => {
    const from = need(size)
    return size === 1 ? view.getUint8(from) : size === 2 ? view.getUint16(from) : view.getUint32(from)
  }
  const text = (length: number): void => {
    const from = need(length)
    if (!isUtf8(bytes.subarray(from, from + length))) throw malformed()
  }
  const begin = (isMap: boolean, count: number): void => {
    const left = isMap ? 2 * count : count
    if (left > bytes.length - at || open.length >= deepest) throw malformed()
    open.push({ isMap, left })
  }

  do {
    const type = view.getUint8(need(1))
    const within = open.at(-1)
    if (within) {
      const isKey = within.isMap && within.left % 2 === 0
      if (isKey && !isText(type)) throw malformed()
      within.left--
    }
    if (type <= 0x7f || type >= 0xe0) {
      // A small integer has no further bytes.
    } else if (type <= 0x8f) begin(true, type & 0x0f)
    else if (type <= 0x9f) begin(false, type & 0x0f)
    else if (type <= 0xbf) text(type & 0x1f)
    else
      switch (type) {
        case 0xc0:
        case 0xc2:
        case 0xc3:
          break
        case 0xca:
        case 0xce:
        case 0xd2:
          need(4)
          break
        case 0xcb:
        case 0xcf:
        case 0xd3:
          need(8)
          break
        case 0xcc:
        case 0xd0:
          need(1)
          break
        case 0xcd:
        case 0xd1:
          need(2)
          break
        case 0xd9:
          text(length(1))
          break
        case 0xda:
          text(length(2))
          break
        case 0xdb:
          text(length(4))
          break
        case 0xdc:
          begin(false, length(2))
          break
        case 0xdd:
          begin(false, length(4))
          break
        case 0xde:
          begin(true, length(2))
          break
        case 0xdf:
          begin(true, length(4))
          break
        default:
          // Binary, extensions, and the one unused type byte.
          throw malformed()
      }
    while (open.at(-1)?.left === 0) open.pop()
  } while (open.length > 0)
  if (at !== bytes.length) throw malformed()
}

const isText = (type: number) => (type >= 0xa0 && type <= 0xbf) || (type >= 0xd9 && type <= 0xdb)
