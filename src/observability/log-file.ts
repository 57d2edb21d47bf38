import { closeSync, constants, mkdirSync, openSync, writeSync } from "node:fs"
import { mkdir, open, stat, type FileHandle } from "node:fs/promises"
import { join } from "node:path"

/** The file that is written now, in the folder of log files. */
export const currentLogName = "starling.log"

export interface LogFileOptions {
  readonly folder: string
  /** Once when nothing can be written. */
  readonly onTrouble: (error: unknown) => void
  /** Lines were lost, because nothing could be written or too much at once; now they are written. */
  readonly onRecovery: (lostLines: number) => void
  /** Milliseconds that only rise. */
  readonly now?: () => number
  readonly maxQueuedBytes?: number
}

/** It is looked so often, when there is something to write, whether the file has been put aside. */
const lookEveryMs = 1_000
/** After a failure nothing is tried for so long. */
const pauseMs = 5_000
const flags = constants.O_APPEND | constants.O_CREAT | constants.O_WRONLY | constants.O_NOFOLLOW

/**
 * Lines of one process in a file that all processes of the host append to. It keeps:
 *   LOGF1  A line is written whole, beside those of other processes: each write appends whole lines, and the operating
 *          system does one after another.
 *   LOGF2  Nobody waits for the disk: lines queue in memory, up to a bound, while a write is under way. What has been
 *          handed to the operating system outlives the process, however that ends.
 *   LOGF3  Lines that cannot be written are lost; that is said once, and how many when it is over.
 */
export class LogFile {
  readonly #options: LogFileOptions
  readonly #now: () => number
  readonly #maxQueuedBytes: number
  #file: FileHandle | undefined
  #inode = 0
  #lookAt = 0
  #retryAt = 0
  #queue: string[] = []
  #queuedBytes = 0
  #isWriting = false
  /** Taken from the queue, but not handed to the operating system yet. */
  #unsent = ""
  /** What was written last may be the beginning of a line. */
  #isCut = false
  #idle: Promise<void> = Promise.resolve()
  #lost = 0
  #isTroubled = false

  constructor(options: LogFileOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
    this.#maxQueuedBytes = options.maxQueuedBytes ?? 1024 * 1024
  }

  /** `line`: without its end. */
  write(line: string): void {
    const bytes = Buffer.byteLength(line) + 1
    if (this.#queuedBytes + bytes > this.#maxQueuedBytes) {
      this.#lost++
      return
    }
    this.#queue.push(line)
    this.#queuedBytes += bytes
    if (!this.#isWriting) this.#idle = this.#drain()
  }

  /** Resolves when everything is written, or lost. */
  async close(): Promise<void> {
    await this.#idle
    await this.#file?.close().catch(() => {})
    this.#file = undefined
  }

  /** For a process that ends in this turn. A write that is under way is finished by the operating system's side of Node. */
  finish(): void {
    const lines = this.#unsent + this.#take()
    if (lines === "" || this.#isTroubled) return
    try {
      mkdirSync(this.#options.folder, { recursive: true, mode: 0o700 })
      const file = openSync(join(this.#options.folder, currentLogName), flags, 0o600)
      writeSync(file, lines)
      closeSync(file)
    } catch {
      // There is nobody left to tell.
    }
  }

  #take(): string {
    const lines = this.#queue.map(line => `${line}\n`).join("")
    this.#queue = []
    this.#queuedBytes = 0
    return lines
  }

  async #drain(): Promise<void> {
    this.#isWriting = true
    try {
      // What is logged in this turn goes out together.
      await Promise.resolve()
      while (this.#queue.length > 0) {
        const count = this.#queue.length
        const lines = this.#take()
        if (this.#now() < this.#retryAt) this.#lost += count
        else await this.#append(lines, count)
      }
    } finally {
      this.#isWriting = false
    }
  }

  async #append(lines: string, count: number): Promise<void> {
    this.#unsent = lines
    try {
      const file = await this.#open()
      const whole = this.#isCut ? `\n${lines}` : lines
      this.#unsent = ""
      const { bytesWritten } = await file.write(whole)
      this.#isCut = bytesWritten < Buffer.byteLength(whole)
      if (this.#isCut) throw Object.assign(new Error("the disk is full"), { code: "ENOSPC" })
      if (!this.#isTroubled && this.#lost === 0) return
      this.#isTroubled = false
      const lost = this.#lost
      this.#lost = 0
      this.#options.onRecovery(lost)
    } catch (error) {
      this.#unsent = ""
      this.#lost += count
      this.#retryAt = this.#now() + pauseMs
      await this.#file?.close().catch(() => {})
      this.#file = undefined
      if (this.#isTroubled) return
      this.#isTroubled = true
      this.#options.onTrouble(error)
    }
  }

  /** The file that has the name now: the one before may have been put aside. */
  async #open(): Promise<FileHandle> {
    const { folder } = this.#options
    const path = join(folder, currentLogName)
    const now = this.#now()
    if (this.#file && now < this.#lookAt) return this.#file
    this.#lookAt = now + lookEveryMs
    if (this.#file) {
      const there = await stat(path).catch(() => undefined)
      if (there?.ino === this.#inode) return this.#file
      await this.#file.close()
      this.#file = undefined
    }
    await makeFolder(folder)
    const file = await open(path, flags, 0o600)
    this.#file = file
    this.#inode = (await file.stat()).ino
    return file
  }
}

/** The folder that it stands in belongs to others, too. */
async function makeFolder(folder: string): Promise<void> {
  await mkdir(join(folder, ".."), { recursive: true })
  await mkdir(folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error
  })
}
