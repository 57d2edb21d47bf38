import { uploadChunkBytes, type Routes } from "./contract.ts"
import { waitMs } from "./backoff.ts"
import {
  ApiError,
  floorOf,
  sleep,
  type CallOptions,
  type FormFile,
  type Named,
  type RetryPolicy,
  type Typed,
} from "./rest.ts"

/** What is sent: a `Blob` or `File` of a browser is one. */
export interface UploadSource {
  /** In bytes. */
  readonly size: number
  /** The bytes from `start` to before `end`. */
  slice(start: number, end: number): { arrayBuffer(): Promise<ArrayBuffer> }
}

export interface UploadOptions {
  readonly source: UploadSource
  readonly filename: string
  readonly contentType?: string
  /** An earlier session of the same file: chunks that it has are not sent again. */
  readonly sessionId?: string
  /** Called with the session's id as soon as there is one. Kept, it lets another page go on. */
  readonly onSession?: (sessionId: string) => void
  /** Called after every chunk, with bytes. */
  readonly onProgress?: (progress: { sent: number; total: number }) => void
  readonly signal?: AbortSignal
  /** Chunks on their way at once: the server takes three of a user. */
  readonly maxConcurrent?: number
  /** Between tries. After so many failures in a row it gives up. */
  readonly retry?: RetryPolicy
}

const defaultRetry = { attempts: 60, firstMs: 200, maxMs: 5_000, jitter: 1 }
/** The session that an upload is sent to, and what it has of it. */
interface Session {
  readonly id: string
  readonly received: ReadonlySet<number>
  readonly chunkBytes: number
}
/** Sent again, such a request may be granted. */
const passing: ReadonlySet<number> = new Set([408, 429, 502, 503, 504])

/** What it takes of a client: any that was made with these routes. */
export type UploadClient = Named<
  Typed<Pick<Routes, "createUploadSession" | "listUploadSessions" | "completeUpload">>
> & {
  uploadChunk(
    input: { session_id: string; chunk_index: string; chunk_checksum: string; file: FormFile },
    options?: CallOptions,
  ): Promise<unknown>
}
export type CompletedUpload = Routes["completeUpload"]["reply"]

/**
 * Uploads a file in chunks, each with its checksum. Lost connections and servers that restart are
 * waited for; then it goes on with the chunks that are missing. A session that was given and that
 * the server no longer has is replaced by a new one. @returns the upload: its `id` makes an
 * attachment of it
 */
export async function uploadInChunks(client: UploadClient, options: UploadOptions): Promise<CompletedUpload> {
  const resumed = await resume(client, options)
  if (resumed) return resumed
  const { source, filename, contentType = "application/octet-stream", onSession } = options
  const { session_id, chunk_size } = await granted(options, call =>
    client.createUploadSession({ filename, content_type: contentType, total_size: source.size }, call),
  )
  onSession?.(session_id)
  await sendMissing(client, options, { id: session_id, received: new Set(), chunkBytes: chunk_size })
  return granted(options, call => client.completeUpload({ session_id }, call))
}

/** @returns undefined: there is no such session */
async function resume(client: UploadClient, options: UploadOptions): Promise<CompletedUpload | undefined> {
  const { sessionId: id, source } = options
  if (id === undefined) return undefined
  const { sessions } = await granted(options, call => client.listUploadSessions({}, call))
  const known = sessions.find(session => session.session_id === id)
  if (known && known.total_size !== source.size) return undefined
  try {
    if (known)
      await sendMissing(client, options, { id, received: new Set(known.received_chunks), chunkBytes: uploadChunkBytes })
    // One that is not listed may be complete already: then its answer is what is missing.
    return await granted(options, call => client.completeUpload({ session_id: id }, call))
  } catch (error) {
    const isOver = error instanceof ApiError && (error.status === 404 || (!known && error.status === 400))
    if (!isOver) throw error
    return undefined
  }
}

async function sendMissing(
  client: UploadClient,
  options: UploadOptions,
  { id, received, chunkBytes }: Session,
): Promise<void> {
  const { source, onProgress, maxConcurrent = 2 } = options
  const total = source.size
  const bytesAt = (index: number) => Math.min(chunkBytes, total - index * chunkBytes)
  const all = Array.from({ length: Math.ceil(total / chunkBytes) }, (_, index) => index)
  let sent = all.filter(index => received.has(index)).reduce((sum, index) => sum + bytesAt(index), 0)
  onProgress?.({ sent, total })
  const left = all.filter(index => !received.has(index)).values()
  let isOver = false
  const lane = async () => {
    for (const index of left) {
      if (isOver) return
      const from = index * chunkBytes
      const bytes = new Uint8Array(await source.slice(from, from + bytesAt(index)).arrayBuffer())
      const chunk_checksum = hexOf(await crypto.subtle.digest("SHA-256", bytes))
      const chunk = { session_id: id, chunk_index: String(index), chunk_checksum, file: { bytes, filename: "chunk" } }
      await granted(options, call => client.uploadChunk(chunk, call))
      sent += bytes.length
      onProgress?.({ sent, total })
    }
  }
  const lanes = Array.from({ length: maxConcurrent }, () =>
    lane().catch((error: unknown) => {
      isOver = true
      throw error
    }),
  )
  const failed = (await Promise.allSettled(lanes)).find(result => result.status === "rejected")
  if (failed) throw failed.reason
}

/** Asks again until it is granted: a repeat of any of these requests is harmless. */
async function granted<T>(
  { signal, retry = defaultRetry }: UploadOptions,
  request: (call: CallOptions) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await request(signal ? { signal } : {})
    } catch (error) {
      const isTransient = error instanceof ApiError ? passing.has(error.status) : error instanceof TypeError
      // "As many as you may today" passes, too, but not soon.
      const { floorMs, isTooLong } = floorOf(error, retry)
      if (!isTransient || isTooLong || attempt >= retry.attempts) throw error
      await sleep(floorMs + waitMs(retry, attempt - 1), signal)
    }
  }
}

const hexOf = (digest: ArrayBuffer): string =>
  Array.from(new Uint8Array(digest), byte => byte.toString(16).padStart(2, "0")).join("")
