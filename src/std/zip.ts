/**
 * ZIP archives of one file, as APPNOTE.TXT 6.3.3 (PKWARE) has them: deflated, its sizes behind the content, without
 * extensions for files of 4 GiB. Whatever opens archives opens these.
 */
import { createInflateRaw, crc32, createDeflateRaw } from "node:zlib"

const signatures = { local: 0x04034b50, descriptor: 0x08074b50, central: 0x02014b50, end: 0x06054b50 }
const [version, deflated] = [20, 8]
/** Sizes stand behind the content; the name is UTF-8. */
const flags = 0x0808
const localBytes = 30

function timeOf(date: Date): { time: number; date: number } {
  return {
    time: (date.getUTCHours() << 11) | (date.getUTCMinutes() << 5) | (date.getUTCSeconds() >> 1),
    date: ((date.getUTCFullYear() - 1980) << 9) | ((date.getUTCMonth() + 1) << 5) | date.getUTCDate(),
  }
}

/** The archive, in pieces, of a file that comes in pieces. */
export async function* zipOf(
  name: string,
  pieces: AsyncIterable<Uint8Array>,
  modified: Date,
): AsyncGenerator<Uint8Array, void> {
  const nameBytes = Buffer.from(name)
  const { time, date } = timeOf(modified)
  let [crc, size, packed] = [0, 0, 0]
  /** What the local header and the central directory have in common. */
  const head = () => {
    const bytes = Buffer.alloc(26)
    bytes.writeUInt16LE(version, 0)
    bytes.writeUInt16LE(flags, 2)
    bytes.writeUInt16LE(deflated, 4)
    bytes.writeUInt16LE(time, 6)
    bytes.writeUInt16LE(date, 8)
    bytes.writeUInt32LE(crc, 10)
    bytes.writeUInt32LE(packed, 14)
    bytes.writeUInt32LE(size, 18)
    bytes.writeUInt16LE(nameBytes.length, 22)
    return bytes
  }
  yield Buffer.concat([signature(signatures.local), head(), nameBytes])
  const local = localBytes + nameBytes.length

  const deflate = createDeflateRaw({ chunkSize: 128 * 1024 })
  const feeding = (async () => {
    for await (const piece of pieces) {
      crc = crc32(piece, crc)
      size += piece.length
      if (!deflate.write(piece)) await new Promise(resolve => deflate.once("drain", resolve))
    }
    deflate.end()
  })().catch((error: Error) => void deflate.destroy(error))
  for await (const piece of deflate as AsyncIterable<Uint8Array>) {
    packed += piece.length
    yield piece
  }
  await feeding

  const figures = Buffer.alloc(12)
  figures.writeUInt32LE(crc, 0)
  figures.writeUInt32LE(packed, 4)
  figures.writeUInt32LE(size, 8)
  yield Buffer.concat([signature(signatures.descriptor), figures])

  const made = Buffer.alloc(2)
  made.writeUInt16LE(version)
  // No comment, no other disk, no attributes; the file begins where the archive does.
  const central = Buffer.concat([signature(signatures.central), made, head(), Buffer.alloc(14), nameBytes])
  const end = Buffer.alloc(18)
  end.writeUInt16LE(1, 4)
  end.writeUInt16LE(1, 6)
  end.writeUInt32LE(central.length, 8)
  end.writeUInt32LE(local + packed + 16, 12)
  yield Buffer.concat([central, signature(signatures.end), end])
}

function signature(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}

/**
 * The content, in pieces, of the first file of an archive. Throws where there is none that is deflated or stored, and where
 * the archive is cut.
 */
export async function* unzipped(archive: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  const source = archive[Symbol.asyncIterator]()
  let head: Uint8Array = new Uint8Array(0)
  const need = async (bytes: number): Promise<Buffer> => {
    while (head.length < bytes) {
      const { done, value } = await source.next()
      if (done) throw new Error("the archive is cut")
      head = Buffer.concat([head, value])
    }
    return Buffer.from(head.buffer, head.byteOffset, head.length)
  }
  const fixed = await need(localBytes)
  if (fixed.readUInt32LE(0) !== signatures.local) throw new Error("this is no archive")
  if (fixed.readUInt16LE(8) !== deflated) throw new Error("the file in the archive is not deflated")
  const begin = localBytes + fixed.readUInt16LE(26) + fixed.readUInt16LE(28)
  const first = (await need(begin)).subarray(begin)

  const inflate = createInflateRaw({ chunkSize: 128 * 1024 })
  let wake = () => {}
  inflate.on("drain", () => wake()).on("close", () => wake())
  const feeding = (async () => {
    let piece: Uint8Array | undefined = first
    while (piece !== undefined && !inflate.destroyed && !inflate.writableEnded) {
      if (!inflate.write(piece) && !inflate.destroyed) await new Promise<void>(resolve => (wake = resolve))
      const { done, value } = await source.next()
      piece = done ? undefined : value
    }
    if (!inflate.destroyed) inflate.end()
  })().catch((error: Error) => void inflate.destroy(error))
  try {
    for await (const piece of inflate as AsyncIterable<Uint8Array>) yield piece
  } finally {
    inflate.destroy()
    await feeding
    await source.return?.()
  }
}
