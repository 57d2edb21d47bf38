/** What a picture is by its content, whatever its sender called it. */
export interface Picture {
  readonly contentType: PictureType
  readonly width: number
  readonly height: number
  /** Has frames, or is of a kind that may: a GIF always counts. A PNG with frames is an APNG. */
  readonly animated: boolean
}
export type PictureType = "image/png" | "image/jpeg" | "image/gif" | "image/webp"

/**
 * Reads a picture's structure from its first byte to its end, without its pixels: kind, size,
 * frames. Undefined: it is none of the four, or cut off, or damaged. What comes after the end is
 * not looked at.
 */
export function pictureOf(bytes: Uint8Array): Picture | undefined {
  const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const read = kinds.find(({ begins }) => begins(file))?.read
  try {
    const picture = read?.(file)
    return picture && picture.width > 0 && picture.height > 0 ? picture : undefined
  } catch (error) {
    // A read beyond the end.
    if (error instanceof RangeError) return undefined
    throw error
  }
}

const kinds: readonly {
  readonly begins: (file: Buffer) => boolean
  readonly read: (file: Buffer) => Picture | undefined
}[] = [
  { begins: file => file.subarray(0, 8).toString("latin1") === "\x89PNG\r\n\x1a\n", read: png },
  { begins: file => file.length > 2 && file.readUIntBE(0, 3) === 0xffd8ff, read: jpeg },
  { begins: file => /^GIF8[79]a$/.test(file.subarray(0, 6).toString("latin1")), read: gif },
  { begins: file => /^RIFF[^]{4}WEBPVP8[ LX]$/.test(file.subarray(0, 16).toString("latin1")), read: webp },
]

/**
 * Chunks (PNG, third edition), each with its checksum, from IHDR to IEND with pixels in between.
 */
function png(file: Buffer): Picture | undefined {
  let size: { width: number; height: number } | undefined
  let [animated, hasPixels] = [false, false]
  for (let at = 8; ;) {
    const length = file.readUInt32BE(at)
    const kind = file.toString("latin1", at + 4, at + 8)
    if (file.readUInt32BE(at + 8 + length) !== checksumOf(file.subarray(at + 4, at + 8 + length))) return undefined
    if ((kind === "IHDR") !== (at === 8)) return undefined
    if (kind === "IHDR") {
      if (length !== 13) return undefined
      size = { width: file.readUInt32BE(at + 8), height: file.readUInt32BE(at + 12) }
    } else if (kind === "IDAT") hasPixels = true
    else if (kind === "acTL" && !hasPixels) animated = true
    else if (kind === "IEND") return hasPixels && size ? { contentType: "image/png", ...size, animated } : undefined
    at += 12 + length
  }
}

/** CRC-32 by a table (PNG, annex D). */
function checksumOf(bytes: Buffer): number {
  let rest = ~0
  for (const byte of bytes) rest = remainders[(rest ^ byte) & 0xff]! ^ (rest >>> 8)
  return ~rest >>> 0
}
const remainders = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? 0xedb88320 ^ (rest >>> 1) : rest >>> 1
  return rest
})

/** Segments (ITU-T T.81) up to the pixels, then the end of the image behind them. */
function jpeg(file: Buffer): Picture | undefined {
  let size: { width: number; height: number } | undefined
  for (let at = 2; ;) {
    if (file.readUInt8(at) !== 0xff) return undefined
    const marker = file.readUInt8(at + 1)
    if (marker === 0xff) at++ // padding
    else if (marker === 0xda)
      return size && hasEnd(file, at) ? { contentType: "image/jpeg", ...size, animated: false } : undefined
    else if (marker === 0xd9 || marker < 0xc0 || (marker >= 0xd0 && marker <= 0xd8)) return undefined
    else {
      const isFrame = marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc
      if (isFrame) size = { height: file.readUInt16BE(at + 5), width: file.readUInt16BE(at + 7) }
      const length = file.readUInt16BE(at + 2)
      if (length < 2) return undefined
      at += 2 + length
    }
  }
}

const hasEnd = (file: Buffer, from: number): boolean => file.indexOf(Buffer.from([0xff, 0xd9]), from) > from

/** Blocks (GIF89a) up to the trailer, with at least one picture. */
function gif(file: Buffer): Picture | undefined {
  const size = { width: file.readUInt16LE(6), height: file.readUInt16LE(8) }
  const tableLength = (flags: number) => (flags & 0x80 ? 3 << ((flags & 7) + 1) : 0)
  const afterBlocks = (from: number): number => {
    let at = from
    for (let length = file.readUInt8(at); length > 0; length = file.readUInt8(at)) at += 1 + length
    return at + 1
  }
  let hasPixels = false
  for (let at = 13 + tableLength(file.readUInt8(10)); ;) {
    const kind = file.readUInt8(at)
    if (kind === 0x3b) return hasPixels ? { contentType: "image/gif", ...size, animated: true } : undefined
    if (kind === 0x21) at = afterBlocks(at + 2)
    else if (kind === 0x2c) {
      hasPixels = true
      // Behind the picture's own colours stands how long its codes are at first.
      at = afterBlocks(at + 11 + tableLength(file.readUInt8(at + 9)))
    } else return undefined
  }
}

/** Chunks (RFC 9649) within the length that the file says of itself. */
function webp(file: Buffer): Picture | undefined {
  const end = 8 + file.readUInt32LE(4)
  if (end > file.length) return undefined
  let size: { width: number; height: number } | undefined
  let [frames, hasPixels] = [0, false]
  for (let at = 12; at + 8 <= end;) {
    const kind = file.toString("latin1", at, at + 4)
    const length = file.readUInt32LE(at + 4)
    const content = at + 8
    if (content + length > end) return undefined
    if (kind === "VP8X")
      size = { width: 1 + file.readUIntLE(content + 4, 3), height: 1 + file.readUIntLE(content + 7, 3) }
    else if (kind === "ANMF") frames++
    else if (kind === "VP8 ") {
      hasPixels = true
      if (file.readUIntBE(content + 3, 3) !== 0x9d012a) return undefined
      size ??= { width: file.readUInt16LE(content + 6) & 0x3fff, height: file.readUInt16LE(content + 8) & 0x3fff }
    } else if (kind === "VP8L") {
      hasPixels = true
      if (file.readUInt8(content) !== 0x2f) return undefined
      const bits = file.readUInt32LE(content + 1)
      size ??= { width: 1 + (bits & 0x3fff), height: 1 + ((bits >>> 14) & 0x3fff) }
    }
    at = content + length + (length % 2)
  }
  return size && (hasPixels || frames > 0) ? { contentType: "image/webp", ...size, animated: frames > 0 } : undefined
}

/** What stands for a server without a picture: its initials on a colour of its own. */
export const defaultColours = ["#e94560", "#4ade80", "#fbbf24", "#60a5fa", "#a78bfa", "#f472b6"] as const

/** The initials of the first two words of a name, or the first two letters of its only one. */
export function initialsOf(name: string): string {
  const words = name.split(/\s+/u).filter(word => word !== "")
  const [first = [], second] = words.map(word => Array.from(word))
  const letters = second === undefined ? first.slice(0, 2) : [first[0]!, second[0]!]
  return letters.join("").toUpperCase() || "S"
}

/** @param firstByte of the SHA-256 of the lower-cased seed */
export function drawnPicture(firstByte: number, letters: string): string {
  const colour = defaultColours[firstByte % defaultColours.length]!
  return (
    '<svg xmlns="http://www.w3.org/2000/svg" width="128" height="128" viewBox="0 0 128 128">' +
    `<rect width="128" height="128" fill="${colour}"/>` +
    '<text x="64" y="64" dy="0.35em" text-anchor="middle" font-family="sans-serif" font-size="52" fill="#ffffff">' +
    `${escaped(letters)}</text></svg>`
  )
}

/** XML knows no control characters but three, no lone surrogates and no U+FFFE or U+FFFF. */
const escaped = (text: string): string =>
  text
    // eslint-disable-next-line no-control-regex
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff\p{Surrogate}]/gu, "")
    .replace(/[&<>"']/g, character => `&#${character.charCodeAt(0)};`)
