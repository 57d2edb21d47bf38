import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { crc32, deflateSync } from "node:zlib"
import sharp from "sharp"
import type { FormFile } from "../../src/contract/core/registry.ts"
import type { Cluster } from "./cluster.ts"

/** Real files of every kind, and some that only look like one. */

export const fileOf = (bytes: Uint8Array, filename = "picture.png", type = "image/png"): FormFile => ({
  bytes: new Uint8Array(bytes),
  filename,
  type,
})

/** The names of a server's files on disk. */
export async function filesOf({ dataDir }: Pick<Cluster, "dataDir">, server: string): Promise<string[]> {
  return readdir(join(dataDir, "files", "servers", server)).catch(() => [])
}

/** One colour, or of noise, which no format makes small. */
const canvas = (width: number, height: number, noise = false) =>
  noise
    ? sharp({
        create: { width, height, channels: 3, noise: { type: "gaussian", mean: 112, sigma: 60 }, background: "#000" },
      })
    : sharp({ create: { width, height, channels: 3, background: "#e94560" } })

export const png = (width = 8, height = width) => canvas(width, height).png().toBuffer()
export const jpeg = (width = 8, height = width) => canvas(width, height).jpeg().toBuffer()
export const gif = (width = 8, height = width) => canvas(width, height).gif().toBuffer()
export const webp = (width = 8, height = width, lossless = false) => canvas(width, height).webp({ lossless }).toBuffer()

/** Two frames. */
const frames = async (size: number) => {
  const two = await canvas(size, size * 2, true)
    .raw()
    .toBuffer()
  return sharp(two, { raw: { width: size, height: size * 2, channels: 3, pageHeight: size } })
}
export const animatedGif = async (size = 8) => (await frames(size)).gif({ delay: [50, 50] }).toBuffer()
export const animatedWebp = async (size = 8) => (await frames(size)).webp({ delay: [50, 50] }).toBuffer()

/** A GIF that takes long to encode again. */
export async function movingNoise(size: number, count: number): Promise<Buffer> {
  const all = await canvas(size, size * count, true)
    .raw()
    .toBuffer()
  return sharp(all, { raw: { width: size, height: size * count, channels: 3, pageHeight: size } })
    .gif({ colours: 16, dither: 0, effort: 1 })
    .toBuffer()
}

const chunk = (kind: string, content: Uint8Array) => {
  const named = Buffer.concat([Buffer.from(kind, "latin1"), content])
  const bytes = Buffer.alloc(8)
  bytes.writeUInt32BE(content.length, 0)
  bytes.writeUInt32BE(crc32(named), 4)
  return Buffer.concat([bytes.subarray(0, 4), named, bytes.subarray(4)])
}

/** A PNG that is as long as it is asked to be: what nobody reads fills it. */
export async function pngOf(length: number): Promise<Buffer> {
  const small = await png()
  const end = small.length - 12
  return Buffer.concat([
    small.subarray(0, end),
    chunk("fiLL", Buffer.alloc(length - small.length - 12)),
    small.subarray(end),
  ])
}

/** A PNG with two frames, written out: sharp makes none. */
export function apng(size = 4): Buffer {
  const word = (...values: number[]) => {
    const bytes = Buffer.alloc(values.length * 4)
    for (const [i, value] of values.entries()) bytes.writeUInt32BE(value, i * 4)
    return bytes
  }
  const pixels = deflateSync(Buffer.alloc((size * 3 + 1) * size))
  const control = (sequence: number) =>
    chunk("fcTL", Buffer.concat([word(sequence, size, size, 0, 0), Buffer.from([0, 1, 0, 10, 0, 0])]))
  return Buffer.concat([
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    chunk("IHDR", Buffer.concat([word(size, size), Buffer.from([8, 2, 0, 0, 0])])),
    chunk("acTL", word(2, 0)),
    control(0),
    chunk("IDAT", pixels),
    control(1),
    chunk("fdAT", Buffer.concat([word(2), pixels])),
    chunk("IEND", Buffer.alloc(0)),
  ])
}

/** What a picture is once it is decoded: its kind, size, frames, and its first pixel. Frames of a PNG are counted by themselves. */
export async function factsOf(bytes: Uint8Array) {
  const file = Buffer.from(bytes)
  const { format, width, height, pages = 1, delay } = await sharp(file).metadata()
  const [red, green, blue] = await sharp(file).resize(1, 1).removeAlpha().raw().toBuffer()
  // What is lossy changes them a little; the mean of noise stands in the middle of a step.
  const coarse = [red, green, blue].map(value => Math.round(value! / 56))
  return { format, width, height, pages, delay, coarse, frames: file.toString("latin1").split("fcTL").length - 1 }
}

/** A photo as a camera makes it: taken upright, stored lying, with the place where it was taken. */
export const photo = (width: number, height: number) =>
  canvas(width, height, true)
    .jpeg()
    .withMetadata({ orientation: 6 })
    .withExif({
      IFD0: { Copyright: "somebody" },
      IFD3: { GPSLatitudeRef: "N", GPSLatitude: "51/1 30/1 3230/100" },
    })
    .toBuffer()

/** A PNG whose header says a size that its pixels do not have. */
export function pngClaiming(width: number, height: number): Buffer {
  const size = Buffer.alloc(8)
  size.writeUInt32BE(width, 0)
  size.writeUInt32BE(height, 4)
  return Buffer.concat([
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    chunk("IHDR", Buffer.concat([size, Buffer.from([8, 2, 0, 0, 0])])),
    chunk("IDAT", deflateSync(Buffer.alloc(1_000))),
    chunk("IEND", Buffer.alloc(0)),
  ])
}

/**
 * A progressive JPEG of one colour, of so many scans: each is some hundred bytes, and goes over all of the picture. `inApp`: bytes
 * of a segment in front, as of a preview.
 */
export function jpegOfScans(side: number, scans: number, inApp: Uint8Array = new Uint8Array()): Buffer {
  const segment = (marker: number, ...bytes: number[]) =>
    Buffer.from([0xff, marker, (bytes.length + 2) >> 8, (bytes.length + 2) & 255, ...bytes])
  /** One symbol, whose code is a bit 0. */
  const table = (kind: number, symbol: number) => segment(0xc4, kind, 1, ...Array<number>(15).fill(0), symbol)
  const size = [side >> 8, side & 255]
  const blocks = Math.ceil(side / 8) ** 2
  // So many blocks in which nothing changes, 32,767 at a time.
  let bits = ""
  for (let left = blocks; left > 0; left -= 32_767)
    bits += `0${(Math.max(Math.min(left, 32_767), 16_384) - 16_384).toString(2).padStart(14, "0")}`
  const unchanged = Buffer.from(
    (bits.match(/.{1,8}/g) ?? []).flatMap(byte => {
      const value = Number.parseInt(byte.padEnd(8, "1"), 2)
      return value === 255 ? [255, 0] : [value]
    }),
  )
  // Of each coefficient first the highest bit, then the others one by one.
  const all = Array.from({ length: 63 * 3 * 14 }, (_, i) => {
    const [coefficient, component, bit] = [1 + Math.floor(i / 42), 1 + (Math.floor(i / 14) % 3), 13 - (i % 14)]
    const before = bit === 13 ? 0 : bit + 1
    return [segment(0xda, 1, component, 0, coefficient, coefficient, (before << 4) | bit), unchanged]
  })
  return Buffer.concat([
    Buffer.from([0xff, 0xd8]),
    ...(inApp.length > 0 ? [segment(0xe1, ...inApp)] : []),
    segment(0xdb, 0, ...Array<number>(64).fill(1)),
    segment(0xc2, 8, ...size, ...size, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0),
    table(0x00, 0),
    table(0x10, 0xe0),
    segment(0xda, 3, 1, 0, 2, 0, 3, 0, 0, 0, 0),
    Buffer.alloc(Math.ceil((blocks * 3) / 8)),
    ...all.slice(0, scans - 1).flat(),
    Buffer.from([0xff, 0xd9]),
  ])
}

/** A GIF of so many frames, of each of which it has one pixel. */
export function gifOf(frames: number, side = 1): Buffer {
  const frame = Buffer.from("21f90404050000002c0000000001000100000202440100", "hex")
  const size = Buffer.alloc(4)
  size.writeUInt16LE(side, 0)
  size.writeUInt16LE(side, 2)
  return Buffer.concat([
    Buffer.from("GIF89a", "latin1"),
    size,
    Buffer.from("800000ff0000000000", "hex"),
    ...Array.from({ length: frames }, () => frame),
    Buffer.from([0x3b]),
  ])
}

/** The names of what is on its way to a job worker. */
export async function incomingOf({ dataDir }: Pick<Cluster, "dataDir">): Promise<string[]> {
  return readdir(join(dataDir, "files", "incoming")).catch(() => [])
}

/** The names of a user's own files. */
export async function filesOfUser({ dataDir }: Pick<Cluster, "dataDir">, user: string): Promise<string[]> {
  return readdir(join(dataDir, "files", "users", user)).catch(() => [])
}

export const lottie = (more: object = {}): Buffer =>
  Buffer.from(JSON.stringify({ v: "5.7.4", fr: 30, ip: 0, op: 60, w: 320, h: 240, layers: [], ...more }))

export const html = Buffer.from("<!doctype html><script>alert(1)</script>")

/** The names of all uploaded files on disk, whole or not. */
export async function uploadsOf({ dataDir }: Pick<Cluster, "dataDir">): Promise<string[]> {
  return readdir(join(dataDir, "files", "uploads")).catch(() => [])
}

/** What an upload is kept under. */
export async function blobOf({ sql }: Pick<Cluster, "sql">, file: string): Promise<string> {
  const [row] = await sql<{ blob: string }[]>`
    SELECT blob FROM uploads u JOIN upload_contents c ON c.hash = u.hash WHERE u.file = ${file}`
  return row!.blob
}

/** The names of all files of chunks on disk, whole or not. */
export async function chunksOf({ dataDir }: Pick<Cluster, "dataDir">): Promise<string[]> {
  return readdir(join(dataDir, "files", "chunks")).catch(() => [])
}
