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
        create: { width, height, channels: 3, noise: { type: "gaussian", mean: 128, sigma: 60 }, background: "#000" },
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

export const lottie = (more: object = {}): Buffer =>
  Buffer.from(JSON.stringify({ v: "5.7.4", fr: 30, ip: 0, op: 60, w: 320, h: 240, layers: [], ...more }))

export const html = Buffer.from("<!doctype html><script>alert(1)</script>")

/** The names of all uploaded files on disk, whole or not. */
export async function uploadsOf({ dataDir }: Pick<Cluster, "dataDir">): Promise<string[]> {
  return readdir(join(dataDir, "files", "uploads")).catch(() => [])
}
