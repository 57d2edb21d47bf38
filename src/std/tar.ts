/**
 * Archives as `tar` reads them: ustar (POSIX.1-1988), entries of a known size, in a file. What is read back is found
 * by its place, so nothing has to be held in memory.
 */
import type { FileHandle } from "node:fs/promises"

const blockBytes = 512
/** Two empty blocks. */
const endBytes = 2 * blockBytes
/** Eleven octal digits. */
const maxEntryBytes = 8 ** 11 - 1
const maxNameBytes = 100

export interface TarEntry {
  readonly name: string
  readonly size: number
  /** Where its content begins in the file. */
  readonly at: number
}

/** Something that is no archive, or the beginning of one. */
export class TarProblem extends Error {}

export const tarEnd = (): Buffer => Buffer.alloc(endBytes)

/** What follows the content, so that the next entry begins with a block. */
export const tarPadding = (size: number): Buffer => Buffer.alloc((blockBytes - (size % blockBytes)) % blockBytes)

/** What stands before the content. */
export function tarHeader(name: string, size: number, modifiedS: number): Buffer {
  const nameBytes = Buffer.from(name)
  if (nameBytes.length > maxNameBytes || size > maxEntryBytes) throw new TarProblem(`${name} does not fit into a tar`)
  const block = Buffer.alloc(blockBytes)
  const octal = (value: number, at: number, digits: number) => block.write(value.toString(8).padStart(digits, "0"), at)
  nameBytes.copy(block)
  octal(0o600, 100, 7)
  octal(0, 108, 7)
  octal(0, 116, 7)
  octal(size, 124, 11)
  octal(modifiedS, 136, 11)
  block.write("0", 156)
  block.write("ustar\u000000", 257, "latin1")
  octal(sumOf(block), 148, 6)
  block[155] = 0x20
  return block
}

/** Of all bytes of a header, as if its own place were blank. */
function sumOf(block: Buffer): number {
  let sum = 0
  for (const [at, byte] of block.entries()) sum += at >= 148 && at < 156 ? 0x20 : byte
  return sum
}

/** Every entry, in order. Throws a TarProblem where the archive is cut off or is none. */
export async function* tarEntries(file: FileHandle): AsyncGenerator<TarEntry, void> {
  const block = Buffer.alloc(blockBytes)
  for (let at = 0; ;) {
    const { bytesRead } = await file.read(block, 0, blockBytes, at)
    if (bytesRead < blockBytes) throw new TarProblem("it is cut off")
    if (block.every(byte => byte === 0)) return
    const field = (from: number, length: number) => block.toString("utf8", from, from + length).split("\0", 1)[0]!
    const size = Number.parseInt(field(124, 12), 8)
    if (!(size >= 0) || sumOf(block) !== Number.parseInt(field(148, 8), 8))
      throw new TarProblem("it is no archive, or is damaged")
    yield { name: field(0, maxNameBytes), size, at: at + blockBytes }
    at += blockBytes + size + tarPadding(size).length
  }
}

/** The bytes of an entry, in pieces. Each is as it is until the next is asked for. */
export async function* tarPieces(
  file: FileHandle,
  { name, size, at }: TarEntry,
  pieceBytes: number,
): AsyncGenerator<Buffer, void> {
  const buffer = Buffer.allocUnsafe(Math.min(pieceBytes, size))
  for (let read = 0; read < size;) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, size - read), at + read)
    if (bytesRead === 0) throw new TarProblem(`it is cut off in ${name}`)
    read += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}
