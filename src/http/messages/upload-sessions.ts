import { createHash, randomBytes } from "node:crypto"
import { setTimeout as sleep } from "node:timers/promises"
import { fail, Failure, unavailable } from "../../contract/core/errors.ts"
import { success, type Snowflake } from "../../contract/core/fields.ts"
import { assembleUpload } from "../../contract/core/jobs.ts"
import { chunkBytes, limits, type CompletedUpload, type routes } from "../../contract/messages/upload-sessions.ts"
import { limitsOf } from "../../domain/accounts/tiers.ts"
import { cleanFilename } from "../../domain/core/filenames.ts"
import { declaredType } from "../../domain/core/file-types.ts"
import { attachmentPath } from "../../domain/messages/attachments.ts"
import {
  bytesOfChunk,
  chunksIn,
  progressOf,
  sessionObject,
  type UploadSessionState,
} from "../../domain/messages/upload-sessions.ts"
import { secondsAt } from "../../std/clock.ts"
import { chunkFile, newBlobName, type Blobs } from "../../storage/core/blobs.ts"
import { refuseExecutables } from "./attachments.ts"
import { maxBytesBesideFile, type StreamedFile } from "../server/form-stream.ts"
import { sizeMessage } from "../server/multipart.ts"
import type { Handlers } from "../server/handlers.ts"
import { deleteUnused, isUnanswered, leaveToSweep } from "../shared/files.ts"
import type { Http, Jobs, Uses } from "../shared/http.ts"

const daySeconds = 86_400
const megabyte = 1_048_576
/** A chunk takes no longer to come: after it, its file may be swept. */
const chunkSeconds = 3_600
/** How often a chunk is put in place of another that came meanwhile, before its sender is told to wait. */
const maxReplacements = 5
/** How long a request waits for its file to be put together: less than `http.answerTimeoutMs`. */
const completeTimeoutMs = 3_000
/** Between two looks, at first and at last. */
const lookMs = { first: 20, most: 250 }

type UploadSessionNeeds = Http<"files" | "uploads" | "uploadSessions" | "fileBlocks"> &
  Uses<{ readonly blobs: Blobs }> & { readonly jobs: Pick<Jobs, "add"> }

/** What happens to sessions on the way. */
function createSteps(http: UploadSessionNeeds) {
  const { storage, clock, log, jobs } = http
  /** One that takes chunks. */
  async function openSession(id: string, user: Snowflake, now: number): Promise<UploadSessionState> {
    const session = await storage.uploadSessions.find(id, user)
    if (session?.state !== "open") throw fail("session_not_found")
    if (session.expires_at <= now) throw fail("upload_session_expired")
    if (session.is_blocked) throw fail("uploads_blocked")
    return session
  }

  /** A chunk's file is there: from now on its session names it. */
  async function put(id: string, number: number, blob: string): Promise<void> {
    for (let tries = 0; tries < maxReplacements; tries++) {
      const former = await storage.uploadSessions.chunk(id, number)
      const now = secondsAt(clock())
      const { is_open, is_put } = await storage.uploadSessions.putChunk(id, { number, blob, former }, now)
      if (!is_open) throw fail("session_not_found") // CHUNK2
      if (!is_put) continue
      if (former !== null) await deleteUnused(http, [chunkFile(former)])
      return
    }
    throw unavailable("the same chunk comes too often at once")
  }

  /** Asks for the file, and waits for it a moment. */
  async function awaited(session: UploadSessionState): Promise<UploadSessionState | undefined> {
    const { id, user_id } = session
    // Were the job lost, a sweep would do it. The queue may be away for longer than this request waits.
    jobs.add(assembleUpload.at({ session_id: id }, { key: `assemble:${id}` })).catch((cause: unknown) => {
      log.debug({ err: cause }, "a job is left to the sweep")
    })
    const until = performance.now() + completeTimeoutMs
    for (let waitMs = lookMs.first; ; waitMs = Math.min(waitMs * 2, lookMs.most)) {
      const found = await storage.uploadSessions.find(id, user_id)
      if (found?.state !== "completing") return found
      if (performance.now() + waitMs > until) throw unavailable("the file is being put together")
      await sleep(waitMs)
    }
  }

  return { openSession, put, awaited }
}

export const uploadSessions = (http: UploadSessionNeeds): Handlers<typeof routes> => {
  const { storage, clock } = http
  const { blobs } = http.integrations
  const { openSession, put, awaited } = createSteps(http)

  return {
    async createUploadSession({ body: { total_size, ...body }, caller }) {
      const { user_id } = caller
      const filename = cleanFilename(body.filename)
      const content_type = declaredType(body.content_type)
      refuseExecutables(filename, content_type)
      const { max_file_size_mb, max_file_uploads_per_day } = limitsOf(caller.tier)
      const most = Math.min(max_file_size_mb * megabyte, limits.chunksPerUpload * chunkBytes)
      if (total_size > most) throw fail("file_over_limit", { message: sizeMessage(total_size, most) })
      const created_at = secondsAt(clock())
      if (await storage.fileBlocks.isBlockedUploader(user_id, created_at)) throw fail("uploads_blocked")

      const day = Math.floor(created_at / daySeconds)
      if (!(await storage.uploads.count(user_id, day, max_file_uploads_per_day)))
        throw fail("upload_limit", { retry_after: (day + 1) * daySeconds - created_at })
      const id = randomBytes(32).toString("base64url")
      const total_chunks = chunksIn(total_size)
      const expires_at = created_at + limits.uploadSessionSeconds
      const isKept = await storage.uploadSessions.insert(
        { id, user_id, filename, content_type, total_size, total_chunks, day, created_at, expires_at },
        limits.uploadSessionsPerUser,
      )
      if (!isKept) {
        await storage.uploads.uncount(user_id, day)
        throw fail("too_many_upload_sessions", { retry_after: limits.uploadSessionSeconds })
      }
      return { session_id: id, chunk_size: chunkBytes, total_chunks, expires_at }
    },

    async uploadChunk({ params: { session_id }, query: { chunk_index, chunk_checksum }, caller, form, longer }) {
      const now = secondsAt(clock())
      const session = await openSession(session_id, caller.user_id, now)
      const { total_chunks } = session
      if (chunk_index < 0 || chunk_index >= total_chunks)
        throw fail("invalid_chunk_index", { message: `Invalid chunk index: ${chunk_index}` })
      const bytes = bytesOfChunk(session, chunk_index)
      const file = await form!.file()
      if (file.announced > bytes + maxBytesBesideFile) throw wrongSize(file.announced, bytes)

      const blob = newBlobName()
      const key = chunkFile(blob)
      await storage.files.announce(key, now + chunkSeconds)
      let isStored = false
      let isUndecided = false
      try {
        await longer(() => blobs.putPieces(key, checked(file, bytes, chunk_checksum?.toLowerCase())))
        isStored = true
        isUndecided = true
        await put(session_id, chunk_index, blob).catch((error: unknown) => {
          isUndecided = !(error instanceof Failure) || error.code === "unavailable"
          throw error
        })
      } catch (error) {
        if (!isStored && isUnanswered(error)) await leaveToSweep(http, key)
        else if (!isUndecided) await deleteUnused(http, [key])
        throw error
      }
      const uploaded_chunks = await storage.uploadSessions.countChunks(session_id)
      return {
        success: true,
        chunk_index,
        uploaded_chunks,
        total_chunks,
        progress_percent: progressOf(uploaded_chunks, total_chunks),
        is_complete: uploaded_chunks === total_chunks,
        error: null,
      }
    },

    async completeUpload({ params: { session_id }, caller: { user_id } }) {
      const now = secondsAt(clock())
      const { uploadSessions } = storage
      await uploadSessions.beginCompleting(session_id, user_id, now, now + limits.uploadSessionSeconds)
      let session = await uploadSessions.find(session_id, user_id)
      if (session?.state === "completing") session = await awaited(session)
      if (!session || session.state === "cancelled" || session.expires_at <= now) throw fail("unknown_upload_session")
      if (session.state === "failed") throw fail(session.refusal!)
      if (session.state === "completed") return completedObject(session)
      if (session.is_blocked) throw fail("uploads_blocked")
      const { chunks, total_chunks } = session
      throw fail("chunks_missing", {
        message: `Chunks are missing: ${total_chunks - chunks.length} of ${total_chunks}`,
      })
    },

    async deleteUploadSession({ params: { session_id }, caller: { user_id } }) {
      if (!(await storage.uploadSessions.cancel(session_id, user_id, secondsAt(clock()))))
        throw fail("session_not_found")
      const { keys } = await storage.uploadSessions.endExpired(0, 1, session_id)
      await deleteUnused(http, keys)
      return success
    },

    async listUploadSessions({ caller: { user_id } }) {
      const active = await storage.uploadSessions.activeOf(user_id, secondsAt(clock()), limits.uploadSessionsPerUser)
      return { sessions: active.map(sessionObject) }
    },
  }
}

/** The pieces of a chunk, as long as it has to be and with the checksum that its sender gives. */
async function* checked({ pieces }: StreamedFile, bytes: number, checksum: string | undefined): AsyncGenerator<Buffer> {
  const sum = checksum === undefined ? undefined : createHash(checksum.length === 32 ? "md5" : "sha256")
  let size = 0
  for await (const piece of pieces) {
    size += piece.length
    if (size > bytes) throw wrongSize(size, bytes)
    sum?.update(piece)
    yield piece
  }
  if (size !== bytes) throw wrongSize(size, bytes)
  if (sum && sum.digest("hex") !== checksum) throw fail("checksum_mismatch")
}

const wrongSize = (bytes: number, right: number) =>
  fail("wrong_chunk_size", { message: `Wrong chunk size: ${bytes} bytes instead of ${right}` })

function completedObject({ total_size, file, hash, filename, content_type }: UploadSessionState): CompletedUpload {
  return {
    success: true,
    size: total_size,
    message: "Upload complete",
    id: file!,
    url: attachmentPath(file!),
    filename,
    content_type,
    hash: hash!,
  }
}
