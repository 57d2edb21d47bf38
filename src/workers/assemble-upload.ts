import { Failure, fail } from "../contract/core/errors.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { keptExtension } from "../domain/core/filenames.ts"
import { isHashable, mayHaveThumbnails } from "../domain/messages/attachments.ts"
import { secondsAt } from "../std/clock.ts"
import { chunkFile, newBlobName, uploadFile } from "../storage/core/blobs.ts"
import { FileExamination } from "../storage/messages/file-examination.ts"
import { missingBlob } from "../storage/messages/uploads.ts"
import { deleteFiles } from "./delete-files.ts"
import { inTurn, keepThumbnails, mayMake } from "./look-at-upload.ts"
import { Deferral, type JobTools, type Looks, type Processor } from "./processor.ts"
import type { Sweep } from "./sweep.ts"

/** Files that a process puts together at a time: more would only share its disk and its core. */
const maxAssemblies = 2
/** Bytes of one read of a chunk. */
const pieceBytes = 262_144
const daySeconds = 86_400
/** Sessions that one statement ends, of up to 200 chunks each. */
const batchSize = 20
/** Sessions that one sweep puts together. */
const maxSwept = 20

/**
 * Puts the chunks of a session together into one file, which becomes an upload of its user (CHUNK3).
 * The file is looked at on the way; what must not be kept is refused, which is the session's answer
 * then.
 */
export const assembleUpload: Processor<"assembleUpload"> = async (tools, { session_id }) => {
  const { assemblies } = tools.running
  if (assemblies.has(session_id)) return
  if (assemblies.size >= maxAssemblies) throw new Deferral("enough files are being put together")
  assemblies.add(session_id)
  try {
    await assemble(tools, session_id)
  } finally {
    assemblies.delete(session_id)
  }
}

async function assemble(tools: JobTools, session_id: string): Promise<void> {
  const { storage, blobs } = tools
  const { uploadSessions } = storage
  const session = await uploadSessions.completing(session_id)
  if (!session) return
  const { user_id, filename, total_size } = session
  const blob = newBlobName()
  const key = uploadFile(blob)
  await storage.files.announce(key, secondsAt(tools.now()) + daySeconds)
  // Once its row may be there, its file stays; a sweep knows which it is.
  let isUndecided = false
  try {
    const examined = new FileExamination(session.content_type)
    await blobs.putPieces(key, assembled(tools, session.blobs, examined))
    const { size, hash, content_type } = examined.facts()
    if (size !== total_size) throw new Error(`the chunks hold ${size} bytes instead of ${total_size}`)
    const looks = isHashable(content_type, size) ? await looksOf(tools, user_id, key) : undefined
    const phash = looks?.phash ?? ""
    if ((await storage.fileBlocks.reasonAgainst(hash, phash)) !== undefined) throw fail("file_blocked")
    const missing = await missingBlob(storage.uploads, blobs, hash)
    const file = newBlobName() + keptExtension(filename)
    const created_at = secondsAt(tools.now())
    const keep_until = created_at + daySeconds
    const upload = { file, user_id, filename, content_type, size, hash, created_at, keep_until }
    isUndecided = true
    const done = await uploadSessions.finish(session_id, upload, { blob, missing, phash })
    const loose = done?.blob !== blob ? [key] : missing === undefined ? [] : [uploadFile(missing)]
    await deleteFiles(tools, { keys: [...(done?.keys ?? []), ...loose] })
    if (done && looks && mayHaveThumbnails(upload) && (await mayMake(tools, user_id, 1)))
      await keepThumbnails(tools, file, looks)
  } catch (error) {
    if (isUndecided) throw error
    await deleteFiles(tools, { keys: [key] })
    if (!(error instanceof Failure) || error.code === "unavailable") throw error
    await deleteFiles(tools, { keys: await uploadSessions.refuse(session_id, error.code) })
  }
}

/** What a picture looks like, once it is its sender's turn: their request waits for it. */
const looksOf = (tools: JobTools, user: Snowflake, key: string): Promise<Looks | undefined> =>
  inTurn(tools, user, true, async isLong => {
    const bytes = await tools.blobs.get(key)
    return bytes && tools.pictures.lookAt(bytes, isLong)
  })

/** All chunks, one after the other. */
async function* assembled(
  { blobs, signal }: JobTools,
  chunks: readonly string[],
  examined: FileExamination,
): AsyncGenerator<Buffer> {
  for (const chunk of chunks) {
    const file = await blobs.open(chunkFile(chunk))
    // Another process has put them together meanwhile, or the session was ended.
    if (!file) throw new Error("a chunk is gone")
    try {
      for (let from = 0; from < file.size;) {
        signal.throwIfAborted()
        const piece = await file.read(from, pieceBytes)
        if (piece.length === 0) throw new Error("a chunk ends before its size")
        examined.take(piece)
        yield piece
        from += piece.length
      }
    } finally {
      await file.close()
    }
  }
  examined.end()
}

/** Ends all of a user's, with their chunks. */
export async function endUploadSessionsOf(tools: JobTools, user: string): Promise<void> {
  while (await tools.storage.uploadSessions.cancelAllOf(user)) {
    tools.signal.throwIfAborted()
    const { keys } = await tools.storage.uploadSessions.endExpired(0, batchSize)
    await deleteFiles(tools, { keys })
  }
}

export const sweeps: readonly Sweep[] = [
  tools => async beforeS => {
    for (let ended = batchSize; ended === batchSize;) {
      tools.signal.throwIfAborted()
      const over = await tools.storage.uploadSessions.endExpired(beforeS, batchSize)
      ended = over.ended
      await deleteFiles(tools, { keys: over.keys })
    }
  },
  // The queue takes no second job under the key of one that failed for good.
  tools => async beforeS => {
    for (const session_id of await tools.storage.uploadSessions.completingBefore(beforeS, maxSwept)) {
      tools.signal.throwIfAborted()
      await assembleUpload(tools, { session_id }).catch((error: unknown) => {
        if (!(error instanceof Deferral)) throw error
      })
    }
  },
]
