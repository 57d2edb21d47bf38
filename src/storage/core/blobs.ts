import { randomBytes } from "node:crypto"
import {
  access,
  constants,
  mkdir,
  open,
  opendir,
  readFile,
  rename,
  rm,
  stat,
  unlink,
  type FileHandle,
} from "node:fs/promises"
import { dirname, join } from "node:path"
import type { Snowflake } from "../../contract/core/fields.ts"
import { FairPlaces } from "../../std/fair-places.ts"

/** A file that is being read. The caller that opened it closes it. */
export interface OpenFile {
  /** Of the whole file. */
  readonly size: number
  /** So many bytes from there, fewer only at the end: as they are until the next read, which may take their place. */
  read(from: number, length: number): Promise<Buffer<ArrayBuffer>>
  close(): Promise<void>
}

/** The bytes of a file that somebody wants. */
export interface Portion {
  readonly from: number
  readonly length: number
}

export interface StoredFile {
  readonly key: string
  readonly size: number
}

/** What a file is served as by somebody else. */
export interface LinkOptions {
  readonly contentType: string
  readonly disposition: string
  readonly cacheControl: string
}

/**
 * Files, by keys that are made here of ids: in a folder, see below, or in a bucket, see
 * bucket-blobs.ts. Where a store does not do what it is asked for in time, all but the folder throw
 * "unavailable".
 */
export interface Blobs {
  /**
   * Resolves once a crash of the machine would not lose it, unless it is on its way only (`incomingFile`). A key
   * is never used twice.
   */
  put(key: string, bytes: Uint8Array): Promise<void>
  /**
   * The same, of what comes piece by piece: the next one is asked for when the one before is
   * written.
   */
  putPieces(key: string, pieces: AsyncIterable<Uint8Array>): Promise<void>
  get(key: string): Promise<Buffer<ArrayBuffer> | undefined>
  /** `portion`: what of it will be read, at most; absent: all. */
  open(key: string, portion?: Portion): Promise<OpenFile | undefined>
  /** What is not there is done. A key that ends in `/` stands for everything below it. */
  delete(key: string): Promise<void>
  /** Everything that is there, and what else lies about under names that are no keys. */
  list(): AsyncIterable<StoredFile>
  /** Throws while nothing can be read or written. */
  check(): Promise<void>
  /**
   * An address at which anybody reads the file for a short time, without the program. Absent: there
   * are none. Undefined: of this file.
   */
  link?(key: string, options: LinkOptions): Promise<string | undefined>
  close(): void
}

/** 32 hex digits that nobody chose. */
export const newBlobName = (): string => randomBytes(16).toString("hex")

/** A file of a server's. `file`: 32 hex digits that nobody chose. */
export const serverFile = (server: Snowflake, file: string): string => serverFiles(server) + file
/** All of them. */
export const serverFiles = (server: Snowflake): string => `servers/${server}/`

/** Below it are the files of a user's own: their picture. */
export const userFiles = (user: Snowflake): string => `users/${user}/`
/**
 * A picture on its way to the job worker that re-encodes it: a request waits for that, and without the request
 * nobody wants it. `file`: 32 hex digits that nobody chose.
 */
export const incomingFile = (file: string): string => incomingFiles + file
const incomingFiles = "incoming/"

/** A thumbnail. `base`: 32 hex digits that nobody chose. */
export const thumbnailFile = (base: string, side: number): string => `thumbnails/${base}-${side}`

/** A file that somebody sent. `file`: 32 hex digits that nobody chose, and an extension. */
export const uploadFile = (file: string): string => uploadFiles + file
export const uploadFiles = "uploads/"
/** A chunk of a file that comes in chunks. `blob`: 32 hex digits that nobody chose. */
export const chunkFile = (blob: string): string => chunkFiles + blob
export const chunkFiles = "chunks/"
/** Its shape: no path, whatever it is joined to. */
export const isUploadName = (file: string): boolean => uploadShape.test(file)

const uploadShape = /^[0-9a-f]{32}(?:\.[a-z0-9]{1,10})?$/
const keyShape =
  /^(?:(?:servers|users)\/[1-9]\d{0,18}\/(?:[0-9a-f]{32})?|(?:incoming|chunks)\/[0-9a-f]{32}|thumbnails\/[0-9a-f]{32}-(?:64|128|256|512)|uploads\/[0-9a-f]{32}(?:\.[a-z0-9]{1,10})?)$/
export const isBlobKey = (key: string): boolean => keyShape.test(key)

/** Keeps them below a folder, which is the same for all hosts. */
export function openLocalBlobs(folder: string): Blobs {
  const pathOf = (key: string): string => {
    if (!isBlobKey(key)) throw new Error(`${JSON.stringify(key)} is no key of a file`)
    return join(folder, key)
  }
  const places = new FairPlaces(maxSyncs, Infinity)
  /** Small files go first: they are short, and somebody waits for them. */
  const inTurn =
    (isSmall: boolean): Syncs =>
    (path, sync) =>
      places.run(path, { isAwaited: isSmall, isLong: !isSmall }, sync)

  return {
    async put(key, bytes) {
      const path = pathOf(key)
      const once = () => write(path, file => file.writeFile(bytes), inTurn(true))
      try {
        await once()
      } catch (error) {
        // The folder may go with another file while this one comes.
        if (codeOf(error) !== "ENOENT") throw error
        await once()
      }
    },

    async putPieces(key, pieces) {
      const path = pathOf(key)
      if (key.startsWith(incomingFiles)) return writeIncoming(path, pieces)
      try {
        const later = inTurn(false)
        await write(path, file => writePieces(file, pieces, () => later(path, () => file.datasync())), later)
      } catch (error) {
        await unlink(unfinished(path)).catch(() => {})
        throw error
      }
    },

    async open(key) {
      const file = await open(pathOf(key), "r").catch((error: unknown) => {
        if (codeOf(error) !== "ENOENT") throw error
        return undefined
      })
      if (!file) return undefined
      try {
        const { size } = await file.stat()
        // Memory that was used before costs a fraction of new memory, which the system has to clear first.
        let buffer = Buffer.alloc(0)
        return {
          size,
          async read(from, length) {
            if (buffer.length < length) buffer = Buffer.allocUnsafeSlow(length)
            const { bytesRead } = await file.read(buffer, 0, length, from)
            return buffer.subarray(0, bytesRead)
          },
          close: () => file.close(),
        }
      } catch (error) {
        await file.close()
        throw error
      }
    },

    async get(key) {
      try {
        return await readFile(pathOf(key))
      } catch (error) {
        if (codeOf(error) === "ENOENT") return undefined
        throw error
      }
    },

    async delete(key) {
      const path = pathOf(key)
      if (key.endsWith("/")) return rm(path, { recursive: true, force: true, maxRetries: 3 })
      const remove = (one: string) =>
        unlink(one).then(
          () => true,
          (error: unknown) => {
            if (codeOf(error) !== "ENOENT") throw error
            return false
          },
        )
      if (!(await remove(path))) await remove(unfinished(path))
    },

    list: () => filesBelow(folder, ""),

    async check() {
      // It is made with the first file.
      await access(folder, constants.R_OK | constants.W_OK).catch((error: unknown) => {
        if (codeOf(error) !== "ENOENT") throw error
      })
    },

    close() {},
  }
}

async function* filesBelow(folder: string, path: string): AsyncGenerator<StoredFile> {
  const missing = (error: unknown) => {
    if (codeOf(error) !== "ENOENT") throw error
    return undefined
  }
  const entries = await opendir(join(folder, path)).catch(missing)
  if (!entries) return
  for await (const entry of entries) {
    if (entry.isDirectory()) yield* filesBelow(folder, `${path}${entry.name}/`)
    const found = entry.isFile() ? await stat(join(folder, path, entry.name)).catch(missing) : undefined
    if (found) yield { key: path + entry.name, size: found.size }
  }
}

/** Of files. */
const mode = 0o640

const unfinished = (path: string) => `${path}.part`

/**
 * So many bytes of a large file are written to the disk at a time, of one such file at once and of a small one beside
 * it: who else writes to it, as PostgreSQL does with every commit, waits for no more.
 */
const syncEveryBytes = 2 * 1024 * 1024
const maxSyncs = 2

type Syncs = (path: string, sync: () => Promise<void>) => Promise<void>

async function writePieces(
  file: FileHandle,
  pieces: AsyncIterable<Uint8Array>,
  syncPart: () => Promise<void>,
): Promise<void> {
  let unsynced = 0
  for await (const piece of pieces) {
    await writePiece(file, piece)
    unsynced += piece.length
    if (unsynced < syncEveryBytes) continue
    await syncPart()
    unsynced = 0
  }
}

async function writePiece(file: FileHandle, piece: Uint8Array): Promise<void> {
  for (let at = 0; at < piece.length;) at += (await file.write(piece, at)).bytesWritten
}

/** Nobody reads it before all of it is there, and after a crash nobody wants it: nothing is written to the disk. */
async function writeIncoming(path: string, pieces: AsyncIterable<Uint8Array>): Promise<void> {
  const [file] = await inFolder(path, () => open(path, "w", mode))
  try {
    for await (const piece of pieces) await writePiece(file, piece)
  } finally {
    await file.close()
  }
}

/** Whole or not at all under its name, whatever ends in between. */
async function write(path: string, fill: (file: FileHandle) => Promise<void>, inTurn: Syncs): Promise<void> {
  const [file, made] = await inFolder(path, () => open(unfinished(path), "w", mode))
  try {
    await fill(file)
    await inTurn(path, () => file.sync())
  } finally {
    await file.close()
  }
  await rename(unfinished(path), path)
  await sync(dirname(path))
  if (made !== undefined) await sync(dirname(made))
}

/** Makes the folder of a path if what is to be done there finds none. @returns what was done, and the first folder that was made */
async function inFolder<T>(path: string, act: () => Promise<T>): Promise<readonly [T, string | undefined]> {
  try {
    return [await act(), undefined]
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error
    const made = await mkdir(dirname(path), { recursive: true })
    return [await act(), made]
  }
}

/** Names are kept by their folder. */
async function sync(folder: string): Promise<void> {
  const handle = await open(folder, "r")
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code
