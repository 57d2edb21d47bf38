import type { ErrorCode } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { UploadSession } from "../../contract/messages/upload-sessions.ts"
import { chunkBytes } from "../../contract/messages/upload-sessions.ts"

/** A file that comes in chunks, as its sender announces it. */
export interface NewUploadSession {
  id: string
  user_id: Snowflake
  filename: string
  content_type: string
  total_size: number
  total_chunks: number
  /** Days since 1970 in UTC: where it counts towards the daily limit. */
  day: number
  /** Unix seconds. */
  created_at: number
  expires_at: number
}

export interface UploadSessionState extends NewUploadSession {
  state: "open" | "completing" | "completed" | "failed" | "cancelled"
  /** Those that have come. */
  chunks: number[]
  /** Of a completed one. */
  file: string | null
  hash: string | null
  /** Of a failed one. */
  refusal: ErrorCode | null
  /** Its user may not send files at present. */
  is_blocked: boolean
}

export const chunksIn = (bytes: number): number => Math.ceil(bytes / chunkBytes)

/** Bytes of a chunk: of each but the last as many as of any other. */
export const bytesOfChunk = ({ total_size, total_chunks }: NewUploadSession, number: number): number =>
  number < total_chunks - 1 ? chunkBytes : total_size - (total_chunks - 1) * chunkBytes

/** In per cent, with two decimals. */
export const progressOf = (uploaded: number, total: number): number => Math.round((uploaded / total) * 10_000) / 100

/** An active one as its user sees it. */
export function sessionObject(session: UploadSessionState): UploadSession {
  const { id, filename, content_type, total_size, total_chunks, chunks, expires_at } = session
  return {
    session_id: id,
    filename,
    content_type,
    total_size,
    uploaded_chunks: chunks.length,
    total_chunks,
    progress_percent: progressOf(chunks.length, total_chunks),
    status: chunks.length === 0 ? "pending" : "in_progress",
    expires_at,
    received_chunks: chunks,
  }
}
