import type { ErrorCode } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { NewUpload } from "../../domain/messages/attachments.ts"
import type { NewUploadSession, UploadSessionState } from "../../domain/messages/upload-sessions.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import { chunkFile, chunkFiles } from "../core/blobs.ts"
import type { Sql, Statement, Statements } from "../core/database.ts"
import { quotaHolder } from "../accounts/bots.ts"
import { keptContent, type KeptContent } from "./uploads.ts"

export const personalData: PersonalData = {
  personal: {
    upload_sessions: {
      userColumns: ["user_id"],
      key: { id: "text" },
      given: [
        "id",
        "user_id",
        "filename",
        "content_type",
        "total_size",
        "total_chunks",
        "state",
        "day",
        "created_at",
        "expires_at",
        "completed_at",
        "file",
        "hash",
        "refusal",
      ],
      atPurge: "ended",
    },
  },
  others: {
    upload_chunks: { why: "Which chunks of `upload_sessions` have come; they go with them" },
  },
}

/**
 * Files that come in chunks. They keep:
 *   CHUNK1  Of a chunk that came several times, from several connections at once even, the one
 *       whose row was written last counts, whole; the files of the others are noted as unused.
 *   CHUNK2  A session takes no chunk after it was completed, cancelled or expired.
 *   CHUNK3  A session becomes one upload, in one statement, however often and wherever its chunks
 *       are put together.
 *   CHUNK4  Whatever ends a session notes the files of its chunks as unused, and gives its place in
 *       the day's count back unless it became an upload.
 */
export const uploadSessionsStorage = (sql: Sql) => ({
  /** @returns false where the user has as many open ones as they may */
  async insert(row: NewUploadSession, most: number): Promise<boolean> {
    const { id, user_id, filename, content_type, total_size, total_chunks, day, created_at, expires_at } = row
    const { count } = await sql`
      INSERT INTO upload_sessions (id, user_id, filename, content_type, total_size, total_chunks, day, created_at, expires_at)
      SELECT ${id}, ${user_id}, ${filename}, ${content_type}, ${total_size}, ${total_chunks}, ${day}, ${created_at}, ${expires_at}
      WHERE ${most} > (
        SELECT count(*) FROM upload_sessions WHERE user_id = ${user_id} AND state IN ('open', 'completing') AND expires_at > ${created_at})`
    return count > 0
  },

  /** One of the user's, whatever has become of it. */
  async find(id: string, user: Snowflake): Promise<UploadSessionState | undefined> {
    const [found] = await sql<UploadSessionState[]>`
      SELECT ${columns(sql)} FROM upload_sessions s WHERE id = ${id} AND user_id = ${user}`
    return found
  },

  /** Those of a user that may still become an upload, the oldest first. */
  async activeOf(user: Snowflake, now: number, limit: number): Promise<UploadSessionState[]> {
    return sql<UploadSessionState[]>`
      SELECT ${columns(sql)} FROM upload_sessions s
      WHERE user_id = ${user} AND state IN ('open', 'completing') AND expires_at > ${now} ORDER BY created_at, id LIMIT ${limit}`
  },

  /** What a chunk is kept under so far. */
  async chunk(id: string, number: number): Promise<string | null> {
    const [found] = await sql<{ blob: string }[]>`
      SELECT blob FROM upload_chunks WHERE session_id = ${id} AND number = ${number}`
    return found?.blob ?? null
  },

  /**
   * A chunk is there as `blob`, in place of `former` (CHUNK1, CHUNK2). @returns whether the session
   * takes chunks, and whether this one was taken: not if another came in place of `former`
   */
  async putChunk(
    id: string,
    { number, blob, former }: { number: number; blob: string; former: string | null },
    now: number,
  ): Promise<{ is_open: boolean; is_put: boolean }> {
    const [row] = await sql<{ is_open: boolean; is_put: boolean }[]>`
      WITH noted AS MATERIALIZED (SELECT key FROM unused_files WHERE key = ${chunkFile(blob)} FOR UPDATE),
        open AS MATERIALIZED (
          SELECT id FROM upload_sessions WHERE id = ${id} AND state = 'open' AND expires_at > ${now} FOR UPDATE),
        put AS (
          INSERT INTO upload_chunks AS c (session_id, number, blob) SELECT id, ${number}::integer, ${blob} FROM open, noted
          ON CONFLICT (session_id, number) DO UPDATE SET blob = excluded.blob WHERE c.blob = ${former}::text RETURNING 1),
        used AS (DELETE FROM unused_files USING put WHERE key = ${chunkFile(blob)}),
        left_over AS (
          INSERT INTO unused_files (key, since) SELECT ${chunkFiles}::text || ${former}::text, 0 FROM put WHERE ${former}::text IS NOT NULL
          ON CONFLICT (key) DO NOTHING)
      SELECT EXISTS (SELECT FROM open) AS is_open, EXISTS (SELECT FROM put) AS is_put`
    return row!
  },

  async countChunks(id: string): Promise<number> {
    const [row] = await sql<{ chunks: number }[]>`
      SELECT count(*)::int AS chunks FROM upload_chunks WHERE session_id = ${id}`
    return row!.chunks
  },

  /**
   * Its chunks are put together from now on, if all are there. Its answer is kept until
   * `expires_at` at least.
   */
  async beginCompleting(id: string, user: Snowflake, now: number, expires_at: number): Promise<void> {
    await sql`
      UPDATE upload_sessions s SET state = 'completing', completed_at = ${now}, expires_at = greatest(expires_at, ${expires_at}::bigint)
      WHERE id = ${id} AND user_id = ${user} AND state = 'open' AND expires_at > ${now}
        AND total_chunks = (SELECT count(*) FROM upload_chunks c WHERE c.session_id = s.id) AND NOT ${isBlocked(sql)}`
  },

  /** One whose chunks are to be put together, with what they are kept under, in order. */
  async completing(id: string): Promise<CompletingSession | undefined> {
    const [found] = await sql<CompletingSession[]>`
      SELECT id, user_id, filename, content_type, total_size, total_chunks, day, created_at, expires_at,
        (SELECT array_agg(blob ORDER BY number) FROM upload_chunks c WHERE c.session_id = s.id) AS blobs
      FROM upload_sessions s WHERE id = ${id} AND state = 'completing'`
    return found
  },

  /** Those whose chunks have waited to be put together since before, the longest waiting first. */
  async completingBefore(before: number, limit: number): Promise<string[]> {
    const rows = await sql<{ id: string }[]>`
      SELECT id FROM upload_sessions WHERE state = 'completing' AND completed_at <= ${before} ORDER BY completed_at LIMIT ${limit}`
    return rows.map(({ id }) => id)
  },

  /**
   * The chunks of a session are together as `blob` and become an upload (CHUNK3). @returns what the
   * upload's bytes are kept under, and the files of the chunks; undefined: the session is over, or
   * the note of `blob` is gone
   */
  async finish(id: string, upload: NewUpload, content: KeptContent): Promise<Ended | undefined> {
    const { file, user_id, filename, content_type, size, hash, created_at, keep_until } = upload
    const [row] = await sql<(Ended & { blob: string | null })[]>`
      WITH session AS MATERIALIZED (SELECT id FROM upload_sessions WHERE id = ${id} AND state = 'completing' FOR UPDATE),
        ${keptContent(sql, { ...content, hash, size }, sql`EXISTS (SELECT FROM session)`)},
        upload AS (
          INSERT INTO uploads (file, user_id, filename, content_type, size, hash, created_at, keep_until, is_shared)
          SELECT ${file}, ${user_id}, ${filename}, ${content_type}, ${size}, ${hash}, ${created_at}, ${keep_until}, true FROM content),
        ended AS (
          UPDATE upload_sessions SET state = 'completed', filename = ${filename}, content_type = ${content_type}, file = ${file}, hash = ${hash}
          FROM content WHERE id IN (SELECT id FROM session) RETURNING id),
        ${chunksOf(sql)}
      SELECT blob, (SELECT coalesce(array_agg(key), '{}') FROM keys) AS keys FROM content`
    return row
  },

  /** What came is refused: the session's answer from now on. @returns the files of its chunks */
  async refuse(id: string, refusal: ErrorCode): Promise<string[]> {
    const [row] = await sql<Ended[]>`
      WITH ended AS (
          UPDATE upload_sessions SET state = 'failed', refusal = ${refusal} WHERE id = ${id} AND state = 'completing' RETURNING id, user_id, day),
        ${uncounted(sql)},
        ${chunksOf(sql)}
      SELECT (SELECT coalesce(array_agg(key), '{}') FROM keys) AS keys`
    return row!.keys
  },

  /** The user wants it no longer. @returns false where no such session is open */
  async cancel(id: string, user: Snowflake, now: number): Promise<boolean> {
    const { count } = await sql`
      UPDATE upload_sessions SET state = 'cancelled', expires_at = 0
      WHERE id = ${id} AND user_id = ${user} AND state = 'open' AND expires_at > ${now}`
    return count > 0
  },

  /**
   * Ends all of a user's: nothing comes to them any longer. @returns whether there were any
   */
  async cancelAllOf(user: Snowflake): Promise<boolean> {
    const { count } = await sql`
      UPDATE upload_sessions SET state = 'cancelled', expires_at = 0 WHERE user_id = ${user}`
    return count > 0
  },

  /**
   * Deletes those that expired before, of these or of all, with their chunks (CHUNK4). @returns how
   * many, and the files of their chunks
   */
  async endExpired(before: number, limit: number, id?: string): Promise<Ended & { ended: number }> {
    const [row] = await sql<(Ended & { ended: number })[]>`
      WITH over AS MATERIALIZED (
          SELECT id FROM upload_sessions WHERE expires_at <= ${before} ${id === undefined ? sql`` : sql`AND id = ${id}`}
          LIMIT ${limit} FOR UPDATE SKIP LOCKED),
        ended AS (
          DELETE FROM upload_sessions WHERE id IN (SELECT id FROM over) RETURNING id, user_id, day, state),
        ${uncounted(sql, sql`WHERE state NOT IN ('completed', 'failed')`)},
        ${chunksOf(sql)}
      SELECT (SELECT count(*)::int FROM ended) AS ended, (SELECT coalesce(array_agg(key), '{}') FROM keys) AS keys`
    return row!
  },
})

type CompletingSession = NewUploadSession & { readonly blobs: readonly string[] }

interface Ended {
  /** Of the chunks' files. */
  readonly keys: string[]
  readonly blob?: string | null
}

const columns = (sql: Statements): Statement => sql`
  id, user_id, filename, content_type, total_size, total_chunks, day, created_at, expires_at, state, file, hash, refusal,
  ARRAY(SELECT number FROM upload_chunks c WHERE c.session_id = s.id ORDER BY number) AS chunks,
  ${isBlocked(sql)} AS is_blocked`

const isBlocked = (sql: Statements): Statement => sql`
  EXISTS (SELECT FROM blocked_uploaders b WHERE b.user_id = s.user_id AND (b.expires_at IS NULL OR b.expires_at > extract(epoch FROM now())))`

/** The chunks of sessions that end as `ended` (CHUNK4). */
const chunksOf = (sql: Statements): Statement => sql`
  gone AS (DELETE FROM upload_chunks USING ended WHERE session_id = ended.id RETURNING blob),
  keys AS (SELECT ${chunkFiles}::text || blob AS key FROM gone),
  noted_chunks AS (INSERT INTO unused_files (key, since) SELECT key, 0 FROM keys ON CONFLICT (key) DO NOTHING)`

/** Their places in the counts of their days (CHUNK4). */
const uncounted = (sql: Statements, which: Statement = sql``): Statement => sql`
  places AS (
    SELECT ${quotaHolder(sql, sql`ended.user_id`)} AS user_id, day, count(*)::int AS files FROM ended ${which} GROUP BY 1, day),
  uncounted AS (
    UPDATE upload_counts c SET files = greatest(c.files - places.files, 0) FROM places WHERE c.user_id = places.user_id AND c.day = places.day)`
