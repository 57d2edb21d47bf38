import { constants, deflateRawSync, inflateSync } from "node:zlib"

/** What a zlib stream begins with (RFC 1950): deflate, references of up to 32 KiB, no dictionary. */
const header = Uint8Array.of(0x78, 0x9c)

/**
 * Costs and bytes were measured (bench/compression.ts): a frame is compressed once and sent to many, so bytes count for more than
 * the microseconds of a higher level; small tables are quicker to begin with than large ones, and lose nothing here.
 */
const level = 6
/** A long frame goes to one session, mostly, and must not hold up the others. */
const levelOfLong = 1
const longFrame = 64 * 1024
const memLevel = 6
/** Frames of up to so many bytes need no larger window. */
const smallFrame = 4096
const smallWindowBits = 12

/**
 * A frame as a piece of a zlib stream: raw deflate that ends in a sync flush (00 00 FF FF) and refers to nothing before itself. So
 * the same bytes continue every session's stream, whatever was sent there before.
 */
export function deflated(frame: string | Uint8Array): Uint8Array {
  const bytes = typeof frame === "string" ? Buffer.from(frame) : frame
  const windowBits = bytes.length <= smallFrame ? smallWindowBits : constants.Z_MAX_WINDOWBITS
  return deflateRawSync(bytes, {
    level: bytes.length > longFrame ? levelOfLong : level,
    memLevel,
    windowBits,
    finishFlush: constants.Z_SYNC_FLUSH,
  })
}

/** The first piece of a stream, with the stream's header in front. */
export const opened = (piece: Uint8Array): Uint8Array => Buffer.concat([header, piece])

/** Whether a client's binary frame is a zlib blob: neither JSON nor a MessagePack object begins so. */
export const isDeflated = (frame: Uint8Array): boolean =>
  frame[0] === 0x78 && (frame[1] === 0x01 || frame[1] === 0x5e || frame[1] === 0x9c || frame[1] === 0xda)

/** What a complete zlib blob holds. Throws where it is none, holds more than `maxBytes`, or more follows it. */
export function inflated(blob: Uint8Array, maxBytes: number): Uint8Array {
  // The types do not know of `info`.
  const { buffer, engine } = inflateSync(blob, { maxOutputLength: maxBytes, info: true }) as unknown as {
    buffer: Uint8Array
    engine: { bytesWritten: number }
  }
  if (engine.bytesWritten !== blob.length) throw new Error("more follows the compressed frame")
  return buffer
}
