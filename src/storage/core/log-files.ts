import { constants, type Stats } from "node:fs"
import { lstat, open, readdir, type FileHandle } from "node:fs/promises"
import { join } from "node:path"
import { fail, unavailable } from "../../contract/core/errors.ts"
import { logFilterOf, logLineOf, pageOfLines, type LogFilter, type LogLine } from "../../domain/service/log-lines.ts"
import { unzipped } from "../../std/zip.ts"

export interface LogFileInfo {
  filename: string
  size: number
  /** Unix seconds. */
  modified: number
  is_zipped: boolean
}

export interface LogPage {
  filename: string
  total_lines: number
  lines: LogLine[]
  limit: number
  offset: number
}

export interface LogFilesOptions {
  readonly folder: string
  /** Of a file, this much of its end is looked at; of an archive, of its beginning. */
  readonly maxBytes: number
  /** Requests of one worker that are looked through at once; the next is refused as "not now". */
  readonly maxConcurrent: number
  readonly timeoutMs: number
}

/** A file is looked through in pieces of this size, and other work has its turn in between. */
const pieceBytes = 128 * 1024
/** What is longer is cut. */
const maxLineBytes = 64 * 1024
/** Of the lines of a page, which are sent twice over; beyond it the page has fewer lines. */
const maxPageCharacters = 4 * 1024 * 1024
const maxListed = 1_000
const shape = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}\.log(?:\.zip)?$/

/** The log files of this host, as operators read them. */
export function openLogFiles({ folder, maxBytes, maxConcurrent, timeoutMs }: LogFilesOptions) {
  let underWay = 0

  const statsOf = async (name: string): Promise<Stats | undefined> => {
    const stats = await lstat(join(folder, name)).catch(ifMissing)
    return stats?.isFile() ? stats : undefined
  }

  /** Lines, a piece of the file at a time. */
  async function* linesOf({ file, size, isZipped }: Opened, dueAt: number): AsyncGenerator<string[], void> {
    const pieces = isZipped ? archived(file, size) : piecesOf(file, Math.max(0, size - maxBytes), size)
    // The first line of what is looked at begins before it.
    let isWhole = isZipped || size <= maxBytes
    let rest = Buffer.alloc(0)
    let looked = 0
    for await (const piece of pieces) {
      if (performance.now() > dueAt) throw unavailable("reading the log takes too long")
      looked += piece.length
      const bytes = Buffer.concat([rest, piece])
      const end = bytes.lastIndexOf(10)
      if (end < 0) {
        rest = bytes.subarray(0, maxLineBytes)
        continue
      }
      rest = bytes.subarray(end + 1).subarray(0, maxLineBytes)
      const lines = bytes.toString("utf8", 0, end).split("\n")
      if (!isWhole) lines.shift()
      isWhole = true
      yield lines
      if (isZipped && looked > maxBytes) return
      await new Promise(resolve => setImmediate(resolve))
    }
    if (rest.length > 0 && isWhole) yield [rest.toString("utf8")]
  }

  async function find(filename: string, limit: number, offset: number, filter: LogFilter): Promise<LogPage> {
    const file = shape.test(filename) ? await open(join(folder, filename), reading).catch(ifMissing) : undefined
    if (!file) throw fail("log_file_not_found")
    try {
      const stats = await file.stat()
      if (!stats.isFile()) throw fail("log_file_not_found")
      // What is appended meanwhile is left for the next request.
      const opened = { file, size: stats.size, isZipped: filename.endsWith(".zip") }
      return { filename, ...(await findIn(opened, limit, offset, filter)) }
    } finally {
      await file.close()
    }
  }

  async function findIn(
    file: Opened,
    limit: number,
    offset: number,
    filter: LogFilter,
  ): Promise<Omit<LogPage, "filename">> {
    const dueAt = performance.now() + timeoutMs
    const matches = logFilterOf(filter)
    let total = 0
    for await (const lines of linesOf(file, dueAt)) for (const line of lines) if (matches(line)) total++
    const page = pageOfLines(total, limit, offset)
    const found: LogLine[] = []
    let [at, characters] = [0, 0]
    if (page.from < page.until)
      for await (const lines of linesOf(file, dueAt)) {
        for (const line of lines) {
          if (!matches(line)) continue
          if (at >= page.from && at < page.until) {
            const one = logLineOf(line.slice(0, maxLineBytes))
            characters += one.raw.length
            found.push(one)
            // Of the end of a file, the end counts.
            if (offset === 0) while (characters > maxPageCharacters) characters -= found.shift()!.raw.length
          }
          at++
        }
        if (at >= page.until || characters > maxPageCharacters) break
      }
    return { total_lines: total, lines: found, limit, offset: page.offset }
  }

  return {
    /** The newest first. */
    async list(): Promise<LogFileInfo[]> {
      const names = (await readdir(folder).catch(ifNoFolder)).filter(name => shape.test(name))
      const found: LogFileInfo[] = []
      for (const filename of names.toSorted().slice(-maxListed)) {
        const stats = await statsOf(filename)
        if (!stats) continue
        const modified = Math.floor(stats.mtimeMs / 1000)
        found.push({ filename, size: stats.size, modified, is_zipped: filename.endsWith(".zip") })
      }
      return found.toSorted((a, b) => b.modified - a.modified || (a.filename < b.filename ? 1 : -1))
    },

    async page(
      filename: string,
      { limit, offset, ...filter }: LogFilter & { limit: number; offset: number },
    ): Promise<LogPage> {
      if (underWay >= maxConcurrent) throw unavailable("logs are being read")
      underWay++
      try {
        return await find(filename, limit, offset, filter)
      } finally {
        underWay--
      }
    },
  }
}

interface Opened {
  readonly file: FileHandle
  readonly size: number
  readonly isZipped: boolean
}

/** Neither a link, which leads elsewhere, nor a pipe, which has no end. */
const reading = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

async function* piecesOf(file: FileHandle, from: number, size: number): AsyncGenerator<Uint8Array, void> {
  for (let at = from; at < size;) {
    // A new one each time: archives are read behind what was given before.
    const piece = Buffer.allocUnsafe(Math.min(pieceBytes, size - at))
    const { bytesRead } = await file.read(piece, 0, piece.length, at)
    if (bytesRead === 0) return
    at += bytesRead
    yield piece.subarray(0, bytesRead)
  }
}

/** What is no archive is no log file, whatever its name says. */
async function* archived(file: FileHandle, size: number): AsyncGenerator<Uint8Array, void> {
  try {
    yield* unzipped(piecesOf(file, 0, size))
  } catch (error) {
    throw fail("log_file_not_found", {}, { cause: error })
  }
}

export type LogFiles = ReturnType<typeof openLogFiles>

function ifMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code === "ENOENT" || error.code === "ELOOP") return undefined
  throw error
}
function ifNoFolder(error: NodeJS.ErrnoException): string[] {
  if (error.code === "ENOENT") return []
  throw error
}
