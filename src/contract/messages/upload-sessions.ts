import { z } from "zod"
import { queryInt, Seconds, Success, text } from "../core/fields.ts"
import { refused, type LimitNotes } from "../core/limit-notes.ts"
import { limits as common } from "../core/limits.ts"
import { defineRoute, FormFile } from "../core/registry.ts"

export const limits = {
  /** Bytes of every chunk but the last. */
  chunkBytes: 5_242_880,
  chunksPerUpload: 200,
  /** The life of a session. */
  uploadSessionSeconds: 3_600,
  /** That a user has open at once. */
  uploadSessionsPerUser: 20,
} as const
export const limitNotes: LimitNotes<typeof limits> = {
  chunkBytes: refused("bytes", "wrong_chunk_size"),
  chunksPerUpload: refused("chunks", "file_over_limit"),
  uploadSessionSeconds: refused("seconds", "upload_session_expired"),
  uploadSessionsPerUser: refused("sessions", "too_many_upload_sessions"),
}
export const { chunkBytes } = limits

/** Whatever is no such id is the id of no session. */
export const UploadSessionId = z.string().meta({
  id: "UploadSessionId",
  description: "43 characters of `A-Z a-z 0-9 - _`",
  example: "2f4Wq0jZ3mJxu8tO6bV1cYh5kRr9sEeGgIiLlNnPpQw",
})

export const NewUploadSession = z
  .object({
    session_id: UploadSessionId,
    chunk_size: z.int().describe("Bytes of every chunk but the last, which has what is left"),
    total_chunks: z.int(),
    expires_at: Seconds,
  })
  .meta({ id: "UploadSessionCreated" })
export type NewUploadSession = z.infer<typeof NewUploadSession>

const progress = {
  uploaded_chunks: z.int(),
  total_chunks: z.int(),
  progress_percent: z.number().min(0).max(100),
}

export const ChunkResult = z
  .object({
    success: z.literal(true),
    chunk_index: z.int(),
    ...progress,
    is_complete: z.boolean().describe("Whether every chunk is there"),
    error: z.null(),
  })
  .meta({ id: "ChunkUploadResponse" })
export type ChunkResult = z.infer<typeof ChunkResult>

export const UploadSession = z
  .object({
    session_id: UploadSessionId,
    filename: z.string(),
    content_type: z.string(),
    total_size: z.int(),
    ...progress,
    status: z.enum(["pending", "in_progress", "completed", "failed", "expired"]),
    expires_at: Seconds,
    received_chunks: z.array(z.int()).describe("The indexes of the chunks that are there, in order"),
  })
  .meta({ id: "UploadSession" })
export type UploadSession = z.infer<typeof UploadSession>

export const CompletedUpload = z
  .object({
    success: z.literal(true),
    size: z.int(),
    message: z.string(),
    id: z.string().describe("Name it in `attachments` of a message to use the file there"),
    url: z.string(),
    filename: z.string(),
    content_type: z.string(),
    hash: z.string().describe("SHA-256 of the file in hex"),
  })
  .meta({ id: "UploadCompleteResponse" })
export type CompletedUpload = z.infer<typeof CompletedUpload>

const params = z.object({ session_id: UploadSessionId })

export const createUploadSession = defineRoute({
  method: "POST",
  path: "/media/upload/session",
  summary:
    "Announce a file that comes in chunks. It counts towards the caller's daily limit until the session is deleted or expires",
  tag: "Media",
  auth: "user",
  body: z
    .object({
      filename: text(1, common.filename),
      content_type: text(1, 100),
      total_size: z.int().min(1).describe("In bytes. The caller's tier limits it"),
    })
    .meta({ id: "UploadSessionCreate" }),
  example: { filename: "film.mp4", content_type: "video/mp4", total_size: 6_000_000 },
  reply: NewUploadSession,
  fails: ["upload_limit", "uploads_blocked", "file_over_limit", "file_type_not_allowed", "too_many_upload_sessions"],
})

export const uploadChunk = defineRoute({
  method: "POST",
  path: "/media/upload/chunk/:session_id",
  summary: "Upload a chunk, in any order. A chunk that is sent again replaces the one before",
  tag: "Media",
  auth: "user",
  params,
  query: z.object({
    chunk_index: queryInt(-2_147_483_648, 2_147_483_647).describe("From 0"),
    chunk_checksum: z
      .string()
      .regex(/^(?:[0-9a-f]{64}|[0-9a-f]{32})$/i, "must be a SHA-256 or MD5 in hex")
      .optional()
      .describe("Of the chunk: SHA-256 in hex, or MD5 where it has 32 digits"),
  }),
  body: z.object({ file: FormFile }).meta({ id: "ChunkUploadRequest" }),
  form: { file: { name: "file", bytes: chunkBytes, tooLarge: "wrong_chunk_size", isStreamed: true } },
  reply: ChunkResult,
  fails: [
    "session_not_found",
    "upload_session_expired",
    "uploads_blocked",
    "invalid_chunk_index",
    "wrong_chunk_size",
    "checksum_mismatch",
  ],
})

export const completeUpload = defineRoute({
  method: "POST",
  path: "/media/upload/complete/:session_id",
  summary:
    "Put the chunks together. 503 with `Retry-After` while this goes on: ask again. To ask again gives the same answer, for an hour at least",
  tag: "Media",
  auth: "user",
  params,
  reply: CompletedUpload,
  fails: [
    "unknown_upload_session",
    "chunks_missing",
    "uploads_blocked",
    "file_type_not_allowed",
    "file_type_mismatch",
    "file_blocked",
  ],
})

export const deleteUploadSession = defineRoute({
  method: "DELETE",
  path: "/media/upload/session/:session_id",
  summary: "Delete an upload session that is not completed, and its chunks",
  tag: "Media",
  auth: "user",
  params,
  reply: Success,
  fails: ["session_not_found"],
})

export const listUploadSessions = defineRoute({
  method: "GET",
  path: "/media/upload/sessions",
  summary: "List the caller's upload sessions that are not completed",
  tag: "Media",
  auth: "user",
  reply: z.object({ sessions: z.array(UploadSession) }).meta({ id: "UploadSessionList" }),
  fails: [],
})

export const routes = { createUploadSession, uploadChunk, completeUpload, deleteUploadSession, listUploadSessions }
