/**
 * The file of a backup: a tar of many entries, each with its SHA-256. After at most a thousand of them comes a list of
 * their digests, as `sha256sum --check` reads it, and at the end the manifest with the digests of these lists: who has
 * read that has read every byte. A file without a manifest is not complete.
 */
import { createHash } from "node:crypto"
import { link, open, rm, stat, type FileHandle } from "node:fs/promises"
import { z } from "zod"
import { tarEnd, tarEntries, tarHeader, tarPadding, tarPieces, TarProblem, type TarEntry } from "../../std/tar.ts"

export const archiveFormat = 1
const entriesPerList = 1_000
export const pieceBytes = 1024 * 1024

const name = z.string().regex(/^[a-z_][a-z0-9_]{0,62}$/)
const count = z.number().int().min(0)
const sha256 = z.string().regex(/^[0-9a-f]{64}$/)

/** The first entry: what a reader has to know before anything else. */
export const Head = z.object({
  format: z.literal(archiveFormat),
  migrations: z.array(z.object({ name: z.string(), digest: sha256 })),
  tables: z.array(z.object({ name, columns: z.array(name) })),
  /** Those that the program makes while it runs, too. */
  partitions: z.array(
    z.object({ name, parent: name, bound: z.string().regex(/^FOR VALUES (FROM|WITH) [A-Za-z0-9_'(), -]{1,200}$/) }),
  ),
  hasFiles: z.boolean(),
})
export type Head = z.infer<typeof Head>

/** What is in it. */
export const Contents = z.object({
  /** Everything that PostgreSQL had committed by then is in it. `message_id`: the highest one; null: there is no message. */
  mark: z.object({ at: z.iso.datetime(), message_id: z.string().nullable() }),
  tables: z.array(z.object({ name, rows: count, bytes: count })),
  /** Of identity columns: the highest value that was given. */
  identities: z.array(z.object({ table: name, column: name, last: z.string().regex(/^\d{1,19}$/) })),
  /** `missing`: files that the store has lost before. */
  files: z.object({ count, bytes: count, missing: z.array(z.string()) }),
  hasKey: z.boolean(),
})
export type Contents = z.infer<typeof Contents>
const Manifest = Contents.extend({ entries: count, lists: z.array(sha256) })

export const headName = "starling-backup.json"
const manifestName = "manifest.json"
const manifestSumName = "manifest.json.sha256"
const listName = /^sums\/\d{6}$/

/** Something that is no backup, or no whole one. */
export class BackupProblem extends Error {}

const digestOf = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")

/**
 * Writes a new file that only its owner can read. It has its name once it is whole; until then it is called `….part`, and what
 * a killed process has left of one is written over.
 */
export class BackupWriter {
  readonly #file: FileHandle
  readonly #path: string
  readonly #lists: string[] = []
  #lines: string[] = []
  #entries = 0
  #at = 0

  private constructor(file: FileHandle, path: string) {
    this.#file = file
    this.#path = path
  }

  /** Undefined where the file is there already. */
  static async create(path: string): Promise<BackupWriter | undefined> {
    if (await stat(path).catch(() => undefined)) return undefined
    await rm(draftOf(path), { force: true })
    return new BackupWriter(await open(draftOf(path), "wx+", 0o600), path)
  }

  /** For what is read back while it is written. */
  get file(): FileHandle {
    return this.#file
  }
  get bytes(): number {
    return this.#at
  }

  async add(name: string, bytes: Uint8Array): Promise<TarEntry> {
    const entry = await this.#write(name, bytes)
    await this.#note(name, digestOf(bytes))
    return entry
  }

  /** Nothing of it is there when `pieces` throws: it can be added once more. They have `size` bytes together. */
  async addPieces(name: string, size: number, pieces: AsyncIterable<Uint8Array>): Promise<void> {
    const from = this.#at
    const hash = createHash("sha256")
    try {
      await this.#append(tarHeader(name, size, nowS()))
      let written = 0
      for await (const piece of pieces) {
        hash.update(piece)
        await this.#append(piece)
        written += piece.length
      }
      if (written !== size) throw new Error(`${name} has ${written} bytes, not ${size}`)
      await this.#append(tarPadding(size))
    } catch (error) {
      this.#at = from
      await this.#file.truncate(from)
      throw error
    }
    await this.#note(name, hash.digest("hex"))
  }

  async finish(contents: Contents): Promise<void> {
    await this.#list()
    const manifest = Buffer.from(
      `${JSON.stringify({ ...contents, entries: this.#entries, lists: this.#lists }, null, 1)}\n`,
    )
    await this.#write(manifestName, manifest)
    await this.#write(manifestSumName, Buffer.from(`${digestOf(manifest)}  ${manifestName}\n`))
    await this.#append(tarEnd())
    await this.#file.sync()
    await this.#file.close()
    // Unlike a rename, this takes no other file's place.
    await link(draftOf(this.#path), this.#path)
    await rm(draftOf(this.#path))
  }

  async abandon(): Promise<void> {
    await this.#file.close().catch(() => {})
    await rm(draftOf(this.#path), { force: true })
  }

  async #write(name: string, bytes: Uint8Array): Promise<TarEntry> {
    await this.#append(tarHeader(name, bytes.length, nowS()))
    const at = this.#at
    await this.#append(bytes)
    await this.#append(tarPadding(bytes.length))
    return { name, size: bytes.length, at }
  }

  async #append(bytes: Uint8Array): Promise<void> {
    for (let done = 0; done < bytes.length;)
      done += (await this.#file.write(bytes, done, bytes.length - done, this.#at + done)).bytesWritten
    this.#at += bytes.length
  }

  async #note(name: string, digest: string): Promise<void> {
    this.#entries++
    if (this.#lines.push(`${digest}  ${name}`) >= entriesPerList) await this.#list()
  }

  async #list(): Promise<void> {
    if (this.#lines.length === 0) return
    const list = Buffer.from(`${this.#lines.splice(0).join("\n")}\n`)
    this.#lists.push(digestOf(list))
    await this.#write(`sums/${String(this.#lists.length).padStart(6, "0")}`, list)
  }
}

const draftOf = (path: string) => `${path}.part`
const nowS = () => Math.floor(Date.now() / 1000)

/** One entry of it. Its pieces may be left unread. */
export interface BackupEntry {
  readonly name: string
  readonly size: number
  pieces(): AsyncIterable<Buffer>
}

/**
 * Reads a backup from the first byte to the last. What an entry holds is known to be right only when all of it was
 * read without an error.
 * @param take is given each entry
 */
export async function readBackup(file: FileHandle, take: (entry: BackupEntry) => Promise<void>): Promise<Contents> {
  let manifest: { contents: z.infer<typeof Manifest>; digest: string } | undefined
  let isSealed = false
  let lines: string[] = []
  const lists: string[] = []
  let entries = 0
  const bytesOf = async (entry: TarEntry) => {
    if (entry.size > 64 * pieceBytes) throw new BackupProblem(`${entry.name} is not as it was written`)
    const pieces: Buffer[] = []
    for await (const piece of tarPieces(file, entry, pieceBytes)) pieces.push(Buffer.from(piece))
    return Buffer.concat(pieces)
  }
  try {
    for await (const entry of tarEntries(file)) {
      if (manifest !== undefined)
        isSealed = (await bytesOf(entry)).toString() === `${manifest.digest}  ${manifestName}\n`
      else if (entry.name === manifestName) {
        const bytes = await bytesOf(entry)
        manifest = { contents: Manifest.parse(JSON.parse(bytes.toString())), digest: digestOf(bytes) }
      } else if (listName.test(entry.name)) {
        const bytes = await bytesOf(entry)
        const known = bytes.toString().trimEnd().split("\n")
        const wrong = lines.find((line, i) => line !== known[i])
        if (wrong !== undefined || known.length !== lines.length)
          throw new BackupProblem(`${(wrong ?? entry.name).split("  ").at(-1)} is not as it was written`)
        lists.push(digestOf(bytes))
        lines = []
      } else {
        entries++
        const hash = createHash("sha256")
        let isRead = false
        const pieces = async function* () {
          isRead = true
          for await (const piece of tarPieces(file, entry, pieceBytes)) {
            hash.update(piece)
            yield piece
          }
        }
        await take({ name: entry.name, size: entry.size, pieces })
        if (!isRead) for await (const _ of pieces());
        lines.push(`${hash.digest("hex")}  ${entry.name}`)
      }
    }
  } catch (error) {
    if (error instanceof TarProblem) throw new BackupProblem(error.message)
    if (error instanceof z.ZodError || error instanceof SyntaxError)
      throw new BackupProblem("its manifest is no manifest")
    throw error
  }
  if (manifest === undefined) throw new BackupProblem("it has no manifest: it was not finished")
  const { entries: wanted, lists: wantedLists, ...contents } = manifest.contents
  if (!isSealed || lines.length > 0 || wanted !== entries || wantedLists.join() !== lists.join())
    throw new BackupProblem("it does not hold what its manifest says")
  return contents
}
