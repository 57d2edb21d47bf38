import { createHash } from "node:crypto"
import { Failure, fail, type ErrorCode } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Content, Unread } from "../../contract/core/registry.ts"
import { secondsAt } from "../../std/clock.ts"
import type { PictureRequests } from "../../cluster/picture-requests.ts"
import type { PictureUse } from "../../contract/core/jobs.ts"
import type { FileState } from "../../domain/core/file-types.ts"
import { drawnPicture, pictureHeadBytes, pictureTypeOf, type EncodedPicture } from "../../domain/core/pictures.ts"
import { incomingFile, newBlobName, serverFile, serverFiles, userFiles, type Blobs } from "../../storage/core/blobs.ts"
import type { Longer } from "../server/answer-clock.ts"
import type { FormStream } from "../server/form-stream.ts"
import { fileTooLarge } from "../server/multipart.ts"
import type { Http, Uses } from "./http.ts"

/** What keeping a file takes. */
export type FileNeeds = Pick<Http<"files">, "storage" | "clock" | "log"> & Uses<{ readonly blobs: Blobs }>

/**
 * A store that did not answer may write a file yet, even after it was told to delete it, and is not
 * waited for once more. So the note stays, and the sweep comes when that is over.
 */
export async function leaveToSweep(
  { storage, clock, log }: Pick<Http<"files">, "storage" | "clock" | "log">,
  key: string,
): Promise<void> {
  await storage.files
    .putOff(key, secondsAt(clock()))
    .catch((cause: unknown) => log.debug({ err: cause, key }, "an unfinished file is left to a later sweep"))
}

/** Those of the files that no row names go now, with their notes; where that fails, they are swept. */
export const deleteUnused = (http: Omit<FileNeeds, "clock">, keys: readonly string[]): Promise<void> =>
  orLeaveToSweep(http, keys, async () => deleteNoted(http, await http.storage.files.unusedOf(keys)))

/** The same of `former`, and with it a file that no row has named nor ever will. */
const deleteIncoming = (http: Omit<FileNeeds, "clock">, source: string, former?: string): Promise<void> =>
  orLeaveToSweep(http, [source], async () => {
    const unused = former === undefined ? [] : await http.storage.files.unusedOf([former])
    await deleteNoted(http, [source, ...unused])
  })

async function deleteNoted(
  { storage, integrations: { blobs } }: Pick<FileNeeds, "storage" | "integrations">,
  keys: readonly string[],
): Promise<void> {
  for (const key of keys) await blobs.delete(key)
  await storage.files.forget(keys)
}

async function orLeaveToSweep(
  { log }: Pick<FileNeeds, "log">,
  keys: readonly string[],
  deletion: () => Promise<void>,
): Promise<void> {
  try {
    await deletion()
  } catch (error) {
    log.debug({ err: error, keys: keys.length }, "unused files are left to the sweep")
  }
}

/** Whether a store may write yet what it was given: it did not say that it has. */
export const isUnanswered = (error: unknown): boolean => error instanceof Failure && error.code === "unavailable"

/** What keeping a picture takes. */
export type PictureNeeds = FileNeeds & Uses<{ readonly pictures: Pick<PictureRequests, "encode"> }>

/** Refusals that leave open whether the turn was done. */
const undecided: ReadonlySet<ErrorCode> = new Set(["unavailable", "internal"])

/**
 * Keeps a file of a server's and has a turn name it: first the note that it may be left over, then
 * the file, then the row, which takes the note back. What a refused turn leaves goes at once, what
 * a lost answer leaves is swept.
 */
export async function withFile<T>(
  http: FileNeeds,
  server: Snowflake,
  { bytes, content_type }: { bytes: Uint8Array; content_type: string },
  turn: (file: FileState) => Promise<T>,
): Promise<T> {
  const { integrations, storage, clock } = http
  const file = newBlobName()
  const key = serverFile(server, file)
  await storage.files.announce(key, secondsAt(clock()))
  await integrations.blobs.put(key, bytes)
  return naming(http, key, () => turn({ file, content_type, hash: hashOf(bytes), size: bytes.length }))
}

/** What a picture comes as: whole, or as the file of a form, of so many bytes at most. */
type GivenPicture = { readonly bytes: Uint8Array } | { readonly form: FormStream; readonly maxBytes: number }

/**
 * The same with a picture, which a job worker decodes and encodes again: what it makes of it is what
 * is kept, below `folder`. Whatever comes of that, what was uploaded goes. With it goes the file that
 * the turn says it has replaced: no row names that any longer.
 */
export async function withPicture<T>(
  http: PictureNeeds,
  folder: string,
  { use, user_id, longer, ...given }: GivenPicture & { use: PictureUse; user_id: Snowflake; longer: Longer },
  turn: (file: FileState, shown: EncodedPicture, replaced: (former: string | undefined) => void) => Promise<T>,
): Promise<T> {
  const { integrations, storage, clock } = http
  const pieces = "form" in given ? formPieces((await given.form.file()).pieces, given.maxBytes) : [given.bytes]
  const source = incomingFile(newBlobName())
  await storage.files.announce(source, secondsAt(clock()))
  try {
    await longer(() => integrations.blobs.putPieces(source, ofPicture(pieces)))
  } catch (error) {
    await (isUnanswered(error) ? leaveToSweep(http, source) : deleteIncoming(http, source))
    throw error
  }
  let former: string | undefined
  try {
    const picture = await longer(() => integrations.pictures.encode({ source, folder, use, user_id }))
    const { file, content_type, hash, size, ...shown } = picture
    return await naming(http, folder + file, () =>
      turn({ file, content_type, hash, size }, { ...shown, content_type }, key => (former = key)),
    )
  } finally {
    await deleteIncoming(http, source, former)
  }
}

async function* formPieces(pieces: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Uint8Array> {
  let size = 0
  for await (const piece of pieces) {
    size += piece.length
    if (size > maxBytes) throw fileTooLarge({ bytes: maxBytes, tooLarge: "file_too_large" })
    yield piece
  }
}

/** The same pieces, as long as the first bytes are those of a picture. */
async function* ofPicture(pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let head = Buffer.alloc(0)
  const look = () => {
    if (!pictureTypeOf(head)) throw fail("invalid_file")
  }
  for await (const piece of pieces) {
    if (head.length < pictureHeadBytes) {
      head = Buffer.concat([head, piece.subarray(0, pictureHeadBytes - head.length)])
      if (head.length === pictureHeadBytes) look()
    }
    yield piece
  }
  if (head.length < pictureHeadBytes) look()
}

/** Has a turn name a file that is there. */
async function naming<T>(http: FileNeeds, key: string, turn: () => Promise<T>): Promise<T> {
  try {
    return await turn()
  } catch (error) {
    if (error instanceof Failure && !undecided.has(error.code)) await deleteUnused(http, [key])
    throw error
  }
}

export const hashOf = (bytes: Uint8Array | string): string => createHash("sha256").update(bytes).digest("hex")

/**
 * Files come from others: whatever is in them, a browser runs nothing of it, and takes it for
 * nothing else.
 */
export const harmless = {
  "Cross-Origin-Resource-Policy": "cross-origin",
  "Content-Security-Policy": "default-src 'none'; sandbox",
}

export const picture = <Body extends Content["body"]>(
  contentType: string,
  body: Body,
  maxAge: string,
  hash: string,
): Content & { body: Body } => ({
  contentType,
  body,
  headers: {
    ...harmless,
    // A page may read it; a browser that opens it saves it.
    ...(!contentType.startsWith("image/") && { "Content-Disposition": "attachment" }),
    "Cache-Control": `public, ${maxAge}`,
    ETag: `"${hash}"`,
  },
})

/** A file of a server's, or of a user's own. */
type OwnedFile = FileState & ({ readonly server_id: Snowflake } | { readonly user_id: Snowflake })
const keyOf = (owned: OwnedFile): string =>
  ("user_id" in owned ? userFiles(owned.user_id) : serverFiles(owned.server_id)) + owned.file

/** A file that never changes under its address. */
export function stored(
  http: Pick<FileNeeds, "integrations" | "log">,
  found: OwnedFile | undefined,
  missing: ErrorCode,
): Content {
  if (!found) throw fail(missing)
  const maxAge = "max-age=31536000, immutable"
  const read = async () => {
    const content = await contentOf(http, found, maxAge)
    if (!content) throw fail(missing)
    return content
  }
  return unread(found, maxAge, read)
}

export const unread = ({ content_type, size, hash }: FileState, maxAge: string, read: Unread["read"]): Content =>
  picture(content_type, { size, read }, maxAge, hash)

export async function contentOf(
  { integrations: { blobs }, log }: Pick<FileNeeds, "integrations" | "log">,
  found: OwnedFile,
  maxAge: string,
): Promise<(Content & { body: Uint8Array<ArrayBuffer> }) | undefined> {
  const key = keyOf(found)
  const bytes = await blobs.get(key)
  if (!bytes) {
    // It went between the row and here, or this host has another DATA_DIR than the one that took
    // it.
    log.warn({ key }, "file of a row is missing")
    return undefined
  }
  return picture(found.content_type, bytes, maxAge, found.hash)
}

/** What is served for somebody without a picture. `seed`: what their colour comes from. */
export function drawn(seed: string, letters: string): Content & { body: Uint8Array<ArrayBuffer> } {
  const [colour] = createHash("sha256").update(seed.toLowerCase()).digest()
  const bytes = Buffer.from(drawnPicture(colour!, letters))
  return picture("image/svg+xml", bytes, "max-age=3600", hashOf(bytes))
}
