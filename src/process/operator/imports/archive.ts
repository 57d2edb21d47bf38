import { createReadStream } from "node:fs"
import { open as openFile, opendir, stat } from "node:fs/promises"
import { basename, join } from "node:path"
import type { Readable } from "node:stream"
import { crc32 } from "node:zlib"
import { Entry, openPromise, type ZipFile } from "yauzl"
import { Refusal } from "../saying.ts"

/**
 * The files of an export: a zip archive, a folder, or one file. It keeps:
 *   ARC1  Nothing is written anywhere by a name that stands in an archive, and a name that leads out of
 *       it, holds a control character or stands there twice refuses the whole archive.
 *   ARC2  A file is never held as a whole, and gives no more bytes than the archive says that it has;
 *       an archive that says what no archive of its size can hold is refused before anything is read.
 */
export interface Archive {
  /** Paths with `/`. */
  readonly names: readonly string[]
  /** Undefined: there is no such file. */
  sizeOf(name: string): number | undefined
  /** The bytes of a file, in pieces. Throws an ArchiveProblem where it is damaged. */
  read(name: string): AsyncIterable<Buffer>
  close(): void
}

/** What is wrong with one file of an archive. */
export class ArchiveProblem extends Error {}

/** Files of an archive, as their names and places are held in memory. */
const maxFiles = 1_000_000
/** Deflate makes at most about 1,032 bytes of one. */
const maxRatio = 1_040
/** What all files together may be, times the archive; text seldom shrinks to less than a fiftieth. */
const maxWholeRatio = 250
/** Archives below this are not worth a look at their ratio. */
const harmlessBytes = 1_073_741_824
const maxDepth = 16

export async function openArchive(path: string): Promise<Archive> {
  const found = await stat(path).catch(() => undefined)
  if (!found) throw new Refusal(`${path}: there is no such file`)
  if (found.isDirectory()) return folderArchive(path)
  if (await isZip(path)) return zipArchive(path, found.size)
  const name = basename(path)
  return {
    names: [name],
    sizeOf: asked => (asked === name ? found.size : undefined),
    read: () => createReadStream(path),
    close() {},
  }
}

async function isZip(path: string): Promise<boolean> {
  const file = await openFile(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, 0)
    // An empty archive begins with its end.
    return bytesRead === 4 && buffer.subarray(0, 2).equals(Buffer.from("PK")) && [3, 5].includes(buffer[2]!)
  } finally {
    await file.close()
  }
}

/** ARC1 */
function requireHarmless(name: string): void {
  // eslint-disable-next-line no-control-regex
  const isBad = /[\u0000-\u001f\u007f]/.test(name) || name.startsWith("/") || name.split("/").includes("..")
  if (isBad)
    throw new Refusal(`the archive names a file ${JSON.stringify(name.slice(0, 200))}: it is refused as a whole`)
}

async function folderArchive(folder: string): Promise<Archive> {
  const sizes = new Map<string, number>()
  async function look(below: string, depth: number): Promise<void> {
    for await (const entry of await opendir(join(folder, below))) {
      const name = below === "" ? entry.name : `${below}/${entry.name}`
      if (entry.isDirectory() && depth < maxDepth) await look(name, depth + 1)
      // Links and other things lead elsewhere.
      if (!entry.isFile()) continue
      if (sizes.size >= maxFiles) throw new Refusal(`${folder} holds more than ${maxFiles} files`)
      sizes.set(name, (await stat(join(folder, name))).size)
    }
  }
  await look("", 0)
  return {
    names: [...sizes.keys()].toSorted(),
    sizeOf: name => sizes.get(name),
    read(name) {
      if (!sizes.has(name)) throw new ArchiveProblem(`${name} is not there`)
      return createReadStream(join(folder, name))
    },
    close() {},
  }
}

/** Of an entry what it is read by, without the rest of what the archive says of it. */
interface Place {
  readonly at: number
  readonly packed: number
  readonly size: number
  readonly isDeflated: boolean
  readonly sum: number
}

async function zipArchive(path: string, bytes: number): Promise<Archive> {
  const problem = (error: unknown) => new Refusal(`${path} is refused: ${(error as Error).message}`)
  const zip = await openPromise(path, { lazyEntries: true, autoClose: false }).catch((error: unknown) => {
    throw problem(error)
  })
  const places = await placesIn(zip, bytes).catch((error: unknown) => {
    zip.close()
    throw error instanceof Refusal ? error : problem(error)
  })
  return {
    names: [...places.keys()].toSorted(),
    sizeOf: name => places.get(name)?.size,
    read(name) {
      const place = places.get(name)
      if (!place) throw new ArchiveProblem(`${name} is not there`)
      return unpacked(zip, name, place)
    },
    close: () => zip.close(),
  }
}

/** ARC2 */
async function placesIn(zip: ZipFile, bytes: number): Promise<Map<string, Place>> {
  const places = new Map<string, Place>()
  let [packed, whole] = [0, 0]
  if (zip.entryCount > maxFiles) throw new Refusal(`the archive holds more than ${maxFiles} files`)
  for await (const entry of entriesOf(zip)) {
    const name = entry.fileName
    requireHarmless(name)
    if (name.endsWith("/")) continue
    if (places.has(name))
      throw new Refusal(`the archive has two files ${JSON.stringify(name)}: it is refused as a whole`)
    if (!entry.canDecodeFileData()) throw new Refusal(`${name} is encrypted, or packed in a way that is not read here`)
    const { compressedSize, uncompressedSize, compressionMethod } = entry
    packed += compressedSize
    whole += uncompressedSize
    if (uncompressedSize > compressedSize * maxRatio + 1_024)
      throw new Refusal(
        `${name} claims ${uncompressedSize} bytes packed into ${compressedSize}: the archive is refused`,
      )
    places.set(name, {
      at: entry.relativeOffsetOfLocalHeader,
      packed: compressedSize,
      size: uncompressedSize,
      isDeflated: compressionMethod !== 0,
      sum: entry.crc32,
    })
  }
  if (packed > bytes) throw new Refusal("files of the archive lie over one another: it is refused")
  if (whole > harmlessBytes && whole > bytes * maxWholeRatio)
    throw new Refusal(
      `the archive of ${bytes} bytes claims to hold ${whole}: it is refused. Unpack it into a folder if that is right`,
    )
  return places
}

async function* entriesOf(zip: ZipFile): AsyncGenerator<Entry, void> {
  for (;;) {
    const entry = await new Promise<Entry | undefined>((resolve, reject) => {
      const settle = (act: () => void) => {
        zip.removeListener("entry", onEntry).removeListener("end", onEnd).removeListener("error", onError)
        act()
      }
      const onEntry = (found: Entry) => settle(() => resolve(found))
      const onEnd = () => settle(() => resolve(undefined))
      const onError = (error: Error) => settle(() => reject(error))
      zip.on("entry", onEntry).on("end", onEnd).on("error", onError)
      zip.readEntry()
    })
    if (!entry) return
    yield entry
  }
}

/** What the archive is read by; who reads it held it to be neither encrypted nor packed in another way. */
const entryAt = ({ at, packed, size, isDeflated }: Place): Entry =>
  Object.assign(new Entry(), {
    relativeOffsetOfLocalHeader: at,
    compressedSize: packed,
    uncompressedSize: size,
    compressionMethod: isDeflated ? 8 : 0,
    generalPurposeBitFlag: 0,
  })

async function* unpacked(zip: ZipFile, name: string, place: Place): AsyncGenerator<Buffer, void> {
  let stream: Readable | undefined
  try {
    stream = await zip.openReadStreamPromise(entryAt(place))
    let sum = 0
    for await (const piece of stream) {
      sum = crc32(piece as Buffer, sum)
      yield piece as Buffer
    }
    if (sum !== place.sum) throw new Error("its checksum is another")
  } catch (error) {
    throw new ArchiveProblem(`${name} is damaged: ${(error as Error).message}`)
  } finally {
    stream?.destroy()
  }
}
