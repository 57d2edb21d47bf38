import { createHash, randomBytes, type Hash } from "node:crypto"
import { mkdir, open, unlink, type FileHandle } from "node:fs/promises"
import { join } from "node:path"
import { Readable } from "node:stream"
import type { Sendable } from "./bucket-requests.ts"

/** An object store takes all parts but the last of at least 5 MiB, and at most 10,000. */
export const partBytes = 8 * 1024 * 1024
/** One is filled while the one before is sent. */
const slots = 2
const readBytes = 256 * 1024

/**
 * Parts of a file on their way to an object store. Each has to be there whole before it is sent: its
 * length and hash come first, and it may be sent again. They wait on this machine's disk and not in
 * memory, because many come at once and each as slowly as its sender likes. The file has no name from
 * the beginning, so nothing is left of it, however the process ends.
 */
export class PartFile {
  readonly #file: FileHandle
  #count = 0

  private constructor(file: FileHandle) {
    this.#file = file
  }

  static async open(folder: string): Promise<PartFile> {
    const path = join(folder, `${randomBytes(16).toString("hex")}.part`)
    const create = () => open(path, "wx+", 0o600)
    const file = await create().catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error
      await mkdir(folder, { recursive: true, mode: 0o700 })
      return create()
    })
    await unlink(path)
    return new PartFile(file)
  }

  /** The next part, in the place of the one before the last: that one has been sent. */
  next(): Part {
    return new Part(this.#file, (this.#count++ % slots) * partBytes)
  }

  /** Once nothing is being sent. */
  close(): Promise<void> {
    return this.#file.close()
  }
}

export class Part implements Sendable {
  readonly #file: FileHandle
  readonly #from: number
  readonly #hash: Hash = createHash("sha256")
  #sha256: string | undefined
  size = 0

  constructor(file: FileHandle, from: number) {
    this.#file = file
    this.#from = from
  }

  /** As many of these bytes as it has space for. @returns how many that is */
  async add(bytes: Uint8Array): Promise<number> {
    const some = bytes.subarray(0, partBytes - this.size)
    this.#hash.update(some)
    for (let at = 0; at < some.length;)
      at += (await this.#file.write(some, at, some.length - at, this.#from + this.size + at)).bytesWritten
    this.size += some.length
    return some.length
  }

  /** Once it is complete. */
  get sha256(): string {
    return (this.#sha256 ??= this.#hash.digest("hex"))
  }

  /** Not the file's own stream: that closes the file when it is destroyed, and then nothing can be sent again. */
  open(): Readable {
    return Readable.from(this.#read(), { objectMode: false, highWaterMark: readBytes })
  }

  async *#read(): AsyncGenerator<Buffer> {
    for (let at = 0; at < this.size;) {
      const length = Math.min(readBytes, this.size - at)
      const { buffer, bytesRead } = await this.#file.read(Buffer.allocUnsafe(length), 0, length, this.#from + at)
      if (bytesRead === 0) throw new Error("a part is shorter than it was")
      at += bytesRead
      yield buffer.subarray(0, bytesRead)
    }
  }
}
