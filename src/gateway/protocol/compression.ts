import { constants, deflateRawSync, inflateSync } from "node:zlib"

/**
 * A zlib stream begins with this header (RFC 1950): deflate, references of up to 32 KiB, no
 * dictionary.
 */
const header = Uint8Array.of(0x78, 0x9c)

/**
 * Costs and sizes were measured (bench/compression.ts). A frame is compressed once and sent to
 * many, so its size matters more than the microseconds of a higher level. Small tables are quicker
 * to set up than large ones, and lose nothing here.
 */
const level = 6
/** A long frame usually goes to one session, and must not delay the others. */
const levelOfLong = 1
const longFrame = 64 * 1024
const memLevel = 6
/** Frames of up to so many bytes need no larger window. */
const smallFrame = 4096
const smallWindowBits = 12

/**
 * A frame as a part of a zlib stream: raw deflate that ends in a sync flush (00 00 FF FF) and
 * refers to nothing before itself. So the same bytes continue every session's stream, whatever was
 * sent there before.
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

/** The first part of a stream, after the stream's header. */
export const opened = (piece: Uint8Array): Uint8Array => Buffer.concat([header, piece])

/**
 * Whether a client's binary frame is a zlib blob: neither JSON nor a MessagePack object begins in
 * this way.
 */
export const isDeflated = (frame: Uint8Array): boolean =>
  frame[0] === 0x78 && (frame[1] === 0x01 || frame[1] === 0x5e || frame[1] === 0x9c || frame[1] === 0xda)

/**
 * The content of a complete zlib blob. Throws if the bytes are no zlib blob, if the content is
 * larger than `maxBytes`, or if more bytes follow.
 */
export function inflated(blob: Uint8Array, maxBytes: number): Uint8Array {
  // The types lack `info`.
  const { buffer, engine } = inflateSync(blob, { maxOutputLength: maxBytes, info: true }) as unknown as {
    buffer: Uint8Array
    engine: { bytesWritten: number }
  }
  if (engine.bytesWritten !== blob.length) throw new Error("more follows the compressed frame")
  return buffer
}
