import type { Snowflake } from "../../contract/core/fields.ts"
import type { UploadState } from "../../domain/messages/attachments.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import { uploadFile, uploadFiles } from "../core/blobs.ts"
import type { Sql, Statement, Statements } from "../core/database.ts"
import { column, defineWrite } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    uploads: {
      userColumns: ["user_id"],
      key: { file: "text" },
      given: ["file", "user_id", "filename", "content_type", "size", "hash", "created_at", "keep_until"],
      atPurge: "ended",
    },
    upload_counts: {
      userColumns: ["user_id"],
      key: { user_id: "bigint", day: "integer" },
      given: ["user_id", "day", "files"],
      atPurge: "erased",
    },
  },
  others: {
    upload_uses: { why: "Which messages show which files; they go with either" },
  },
}

/**
 * Files that were sent. They keep:
 *   FILE1  A file exists as long as a message uses it: adding a use and deleting the file lock
 *       its row, and a use without the row is refused.
 *   FILE2  A deleted row leaves a note that its file is unused, see files.ts.
 */

interface UploadUse {
  file: string
  channel_id: Snowflake
  message_id: Snowflake
}

/** A message shows a file from now on. */
export const insertUploadUse = defineWrite<UploadUse>(
  "insertUploadUse",
  (sql, rows) => sql`
    WITH given AS MATERIALIZED (
        SELECT DISTINCT * FROM unnest(${column(rows, "file")}::text[], ${column(rows, "channel_id")}::bigint[], ${column(rows, "message_id")}::bigint[])
          AS t (file, channel_id, message_id)),
      kept AS (UPDATE uploads SET keep_until = NULL WHERE file IN (SELECT file FROM given) AND keep_until IS NOT NULL)
    INSERT INTO upload_uses (file, channel_id, message_id) SELECT * FROM given`,
  { upload_uses_file_fkey: "invalid_attachment" }, // FILE1
)

/**
 * Messages are gone: a part of the statement that deletes them. `messages` names their rows, as
 * (channel_id, id).
 */
export const endUploadUses = (sql: Statements, messages: string): Statement => sql`
  shown AS (
    DELETE FROM upload_uses USING ${sql.unsafe(messages)} AS gone
    WHERE upload_uses.channel_id = gone.channel_id AND upload_uses.message_id = gone.id RETURNING file),
  loose AS (UPDATE uploads SET keep_until = 0 WHERE file IN (SELECT file FROM shown))`

export const uploadsStorage = (sql: Sql) => ({
  /** One more file of a day, if the limit allows it. @returns whether there was */
  async count(user: Snowflake, day: number, most: number): Promise<boolean> {
    if (most === 0) return false
    const { count } = await sql`
      INSERT INTO upload_counts AS c (user_id, day, files) VALUES (${user}, ${day}, 1)
      ON CONFLICT (user_id, day) DO UPDATE SET files = c.files + 1 WHERE ${most} = -1 OR c.files < ${most}`
    return count > 0
  },

  /** It did not come to that. */
  async uncount(user: Snowflake, day: number): Promise<void> {
    await sql`UPDATE upload_counts SET files = files - 1 WHERE user_id = ${user} AND day = ${day} AND files > 0`
  },

  async forgetCounts(before: number, limit: number): Promise<number> {
    const { count } = await sql`
      DELETE FROM upload_counts WHERE ctid = ANY(ARRAY(SELECT ctid FROM upload_counts WHERE day < ${before} LIMIT ${limit}))`
    return count
  },

  /**
   * Its file is there: from now on this row names it. @returns whether the file's note still was;
   * without it the file may be gone
   */
  async insert(row: UploadState): Promise<boolean> {
    const { file, user_id, filename, content_type, size, hash, created_at, keep_until } = row
    const { count } = await sql`
      WITH noted AS (DELETE FROM unused_files WHERE key = ${uploadFile(file)} RETURNING 1)
      INSERT INTO uploads (file, user_id, filename, content_type, size, hash, created_at, keep_until)
      SELECT ${file}, ${user_id}, ${filename}, ${content_type}, ${size}, ${hash}, ${created_at}, ${keep_until} FROM noted`
    return count > 0
  },

  async find(files: readonly string[]): Promise<Map<string, UploadState>> {
    const rows = await sql<
      UploadState[]
    >`SELECT file, user_id, filename, content_type, size, hash, created_at, keep_until FROM uploads WHERE file = ANY(${[...files]}::text[])`
    return new Map(rows.map(row => [row.file, row]))
  },

  /**
   * Channels with a message that shows a file, of those that somebody may be able to read: where it
   * was shown last comes first.
   */
  async channelsShowing(file: string, user: Snowflake, limit: number): Promise<Snowflake[]> {
    const rows = await sql<{ channel_id: Snowflake }[]>`
      SELECT u.channel_id FROM upload_uses u
        LEFT JOIN channels c ON c.id = u.channel_id LEFT JOIN direct_channels d ON d.id = u.channel_id
      WHERE u.file = ${file} AND (d.user_id = ${user} OR d.other_id = ${user}
        OR EXISTS (SELECT FROM members m WHERE m.server_id = c.server_id AND m.user_id = ${user}))
      GROUP BY u.channel_id ORDER BY max(u.message_id) DESC LIMIT ${limit}`
    return rows.map(({ channel_id }) => channel_id)
  },

  /**
   * A message does that whose channel is still there: what was in one that is gone is cleared up
   * later.
   */
  async isShown(file: string): Promise<boolean> {
    const rows = await sql`
      SELECT FROM upload_uses u WHERE u.file = ${file}
        AND (EXISTS (SELECT FROM channels WHERE id = u.channel_id) OR EXISTS (SELECT FROM direct_channels WHERE id = u.channel_id)) LIMIT 1`
    return rows.length > 0
  },

  /**
   * Ends those whose time is over, of these or of all; what a message shows is kept. What somebody
   * is just about to show is left to the next look. @returns how many it looked at, and what their
   * files are kept under (FILE2)
   */
  async end(now: number, limit: number, files?: readonly string[]): Promise<{ looked: number; keys: string[] }> {
    const [row] = await sql<{ looked: number; keys: string[] }[]>`
      WITH loose AS MATERIALIZED (
          SELECT file, EXISTS (SELECT FROM upload_uses s WHERE s.file = u.file) AS is_shown FROM uploads u
          WHERE keep_until <= ${now} ${files ? sql`AND file = ANY(${[...files]}::text[])` : sql``} LIMIT ${limit} FOR UPDATE SKIP LOCKED),
        kept AS (UPDATE uploads SET keep_until = NULL WHERE file IN (SELECT file FROM loose WHERE is_shown)),
        gone AS (DELETE FROM uploads WHERE file IN (SELECT file FROM loose WHERE NOT is_shown) RETURNING ${uploadFiles}::text || file AS key),
        noted AS (INSERT INTO unused_files (key, since) SELECT key, 0 FROM gone ON CONFLICT (key) DO NOTHING)
      SELECT (SELECT count(*)::int FROM loose) AS looked, coalesce((SELECT array_agg(key) FROM gone), '{}') AS keys`
    return row!
  },

  /**
   * Ends some of somebody's, whatever shows them. @returns what their files are kept under (FILE2)
   */
  async endOf(user: Snowflake, limit: number): Promise<string[]> {
    const rows = await sql<{ key: string }[]>`
      WITH own AS MATERIALIZED (SELECT file FROM uploads WHERE user_id = ${user} LIMIT ${limit} FOR UPDATE),
        shown AS (DELETE FROM upload_uses WHERE file IN (SELECT file FROM own)),
        gone AS (DELETE FROM uploads WHERE file IN (SELECT file FROM own) RETURNING ${uploadFiles}::text || file AS key),
        noted AS (INSERT INTO unused_files (key, since) SELECT key, 0 FROM gone ON CONFLICT (key) DO NOTHING)
      SELECT key FROM gone`
    return rows.map(({ key }) => key)
  },
})
