import { crc32 } from "node:zlib"

/** A PNG file with frames, taken apart (PNG, third edition, 5 and 11.3.6). */
export interface Apng {
  readonly width: number
  readonly height: number
  readonly plays: number
  /** Each with its place and times, as `fcTL` has them behind its sequence number and size. */
  readonly frames: readonly { readonly control: Buffer; readonly png: Buffer }[]
  /** The first image is not among the frames: it is what is shown where frames are not known. */
  readonly still: Buffer | undefined
}

interface Chunk {
  readonly kind: string
  readonly content: Buffer
}

const signature = Buffer.from("\x89PNG\r\n\x1a\n", "latin1")
/** What says how pixels are to be read; a frame's pixels mean nothing without. */
const shared: ReadonlySet<string> = new Set(["PLTE", "tRNS", "gAMA", "sRGB", "cHRM"])

function* chunksOf(file: Buffer): Generator<Chunk> {
  for (let at = signature.length; at + 12 <= file.length;) {
    const length = file.readUInt32BE(at)
    if (at + 12 + length > file.length) throw new RangeError("a chunk is cut off")
    const kind = file.toString("latin1", at + 4, at + 8)
    yield { kind, content: file.subarray(at + 8, at + 8 + length) }
    if (kind === "IEND") return
    at += 12 + length
  }
  throw new RangeError("the end is missing")
}

function chunk(kind: string, ...parts: readonly Uint8Array[]): Buffer {
  const named = Buffer.concat([Buffer.from(kind, "latin1"), ...parts])
  const whole = Buffer.alloc(named.length + 8)
  whole.writeUInt32BE(named.length - 4, 0)
  named.copy(whole, 4)
  whole.writeUInt32BE(crc32(named), named.length + 4)
  return whole
}

const words = (...values: readonly number[]): Buffer => {
  const bytes = Buffer.alloc(values.length * 4)
  for (const [i, value] of values.entries()) bytes.writeUInt32BE(value, i * 4)
  return bytes
}

/** How many frames a PNG file says it has; 0: it is an ordinary one. */
export function framesOfPng(file: Buffer): number {
  for (const { kind, content } of chunksOf(file)) {
    if (kind === "acTL") return content.readUInt32BE(0)
    if (kind === "IDAT") return 0
  }
  return 0
}

/** Throws where it is damaged. `maxFrames`: of more, nothing is taken apart. */
export function disassemble(file: Buffer, maxFrames: number): Apng {
  let [header, plays]: [Buffer, number] = [Buffer.alloc(0), 0]
  const before: Buffer[] = []
  const images: { control: Buffer | undefined; size: Buffer; data: Buffer[] }[] = []
  for (const { kind, content } of chunksOf(file)) {
    if (kind === "IHDR") header = content
    else if (shared.has(kind)) before.push(chunk(kind, content))
    else if (kind === "acTL") plays = content.readUInt32BE(4)
    else if (kind === "fcTL") {
      if (content.length !== 26) throw new RangeError("a frame has no control")
      images.push({ control: content.subarray(12), size: content.subarray(4, 12), data: [] })
    } else if (kind === "IDAT") {
      if (images.length === 0) images.push({ control: undefined, size: header.subarray(0, 8), data: [] })
      images.at(-1)!.data.push(content)
    } else if (kind === "fdAT") images.at(-1)!.data.push(content.subarray(4))
    if (images.length > maxFrames + 1) throw new RangeError("there are too many frames")
  }
  if (header.length !== 13) throw new RangeError("the header is missing")
  const pngs = images.map(({ control, size, data }) => ({
    control,
    png: Buffer.concat([
      signature,
      chunk("IHDR", size, header.subarray(8)),
      ...before,
      chunk("IDAT", ...data),
      chunk("IEND"),
    ]),
  }))
  return {
    width: header.readUInt32BE(0),
    height: header.readUInt32BE(4),
    plays,
    frames: pngs.flatMap(({ control, png }) => (control ? [{ control, png }] : [])),
    still: pngs[0]?.control ? undefined : pngs[0]?.png,
  }
}

/** Puts one together of images that were encoded with the same kind of pixels. */
export function assemble({ width, height, plays, frames, still }: Apng): Buffer {
  const pixelsOf = (png: Buffer) =>
    Buffer.concat([...chunksOf(png)].filter(({ kind }) => kind === "IDAT").map(({ content }) => content))
  const headerOf = (png: Buffer) => png.subarray(signature.length + 8, signature.length + 21)
  let sequence = 0
  const body: Buffer[] = still ? [chunk("IDAT", pixelsOf(still))] : []
  for (const [i, { control, png }] of frames.entries()) {
    body.push(chunk("fcTL", words(sequence++), headerOf(png).subarray(0, 8), control))
    body.push(i === 0 && !still ? chunk("IDAT", pixelsOf(png)) : chunk("fdAT", words(sequence++), pixelsOf(png)))
  }
  return Buffer.concat([
    signature,
    chunk("IHDR", words(width, height), headerOf(frames[0]!.png).subarray(8)),
    chunk("acTL", words(frames.length, plays)),
    ...body,
    chunk("IEND"),
  ])
}
