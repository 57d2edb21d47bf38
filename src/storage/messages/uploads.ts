import type { Snowflake } from "../../contract/core/fields.ts"
import type { NewUpload, UploadState } from "../../domain/messages/attachments.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import { uploadFile, uploadFiles, type Blobs } from "../core/blobs.ts"
import { quotaHolder } from "../accounts/bots.ts"
import { inTransaction, type Sql, type Statement, type Statements } from "../core/database.ts"
import { column, defineWrite } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    uploads: {
      userColumns: ["user_id"],
      key: { file: "text" },
      given: ["file", "user_id", "filename", "content_type", "size", "hash", "created_at", "keep_until"],
      leftOut: { is_shared: "How the file is kept" },
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
    upload_contents: { why: "What the files of `uploads` hold, once each; it goes with the last of them" },
  },
}

/**
 * Files that were sent. They keep:
 *   FILE1  A file exists as long as a message uses it: adding a use and deleting the file lock
 *       its row, and a use without the row is refused.
 *   FILE2  A deleted row leaves a note that its file is unused, see files.ts.
 *   FILE3  The same bytes are kept once, and as long as an upload names them: `uses` changes in
 *       the statement that adds or deletes those uploads.
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
  /** One more file of a day, if the limit allows it: of a user and their bots together. @returns whether there was */
  async count(user: Snowflake, day: number, most: number): Promise<boolean> {
    if (most === 0) return false
    const { count } = await sql`
      INSERT INTO upload_counts AS c (user_id, day, files) VALUES (${quotaHolder(sql, sql`${user}::bigint`)}, ${day}, 1)
      ON CONFLICT (user_id, day) DO UPDATE SET files = c.files + 1 WHERE ${most} = -1 OR c.files < ${most}`
    return count > 0
  },

  /** It did not come to that. */
  async uncount(user: Snowflake, day: number): Promise<void> {
    await sql`UPDATE upload_counts SET files = files - 1 WHERE user_id = ${quotaHolder(sql, sql`${user}::bigint`)} AND day = ${day} AND files > 0`
  },

  async forgetCounts(before: number, limit: number): Promise<number> {
    const { count } = await sql`
      DELETE FROM upload_counts WHERE ctid = ANY(ARRAY(SELECT ctid FROM upload_counts WHERE day < ${before} LIMIT ${limit}))`
    return count
  },

  /**
   * Its bytes are there as `blob`: from now on this row names them. @returns what it names: another
   * blob where the same bytes were there before; undefined: the note of `blob` is gone, and so the
   * file may be
   */
  async insert(row: NewUpload, { blob, missing, phash }: KeptContent): Promise<string | undefined> {
    const { file, user_id, filename, content_type, size, hash, created_at, keep_until } = row
    const [kept] = await sql<{ blob: string }[]>`
      WITH ${keptContent(sql, { hash, size, blob, missing, phash })},
      upload AS (
        INSERT INTO uploads (file, user_id, filename, content_type, size, hash, created_at, keep_until, is_shared)
        SELECT ${file}, ${user_id}, ${filename}, ${content_type}, ${size}, ${hash}, ${created_at}, ${keep_until}, true FROM content)
      SELECT blob FROM content`
    return kept?.blob
  },

  async find(files: readonly string[]): Promise<Map<string, UploadState>> {
    const rows = await sql<UploadState[]>`
      SELECT file, user_id, filename, content_type, u.size, u.hash, created_at, keep_until, coalesce(c.blob, file) AS blob,
        EXISTS (SELECT FROM blocked_hashes b WHERE b.hash_value = u.hash AND NOT b.auto_blocked) AS is_withheld
      FROM uploads u LEFT JOIN upload_contents c ON u.is_shared AND c.hash = u.hash WHERE file = ANY(${[...files]}::text[])`
    return new Map(rows.map(row => [row.file, row]))
  },

  /** What these bytes are kept under, if they were sent before. */
  async contentOf(hash: string): Promise<{ blob: string; size: number } | undefined> {
    const [found] = await sql<{ blob: string; size: number }[]>`
      SELECT blob, size FROM upload_contents WHERE hash = ${hash}`
    return found
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

  /** The same of all files that hold these bytes. */
  async channelsShowingHash(hash: string, user: Snowflake, limit: number): Promise<Snowflake[]> {
    const rows = await sql<{ channel_id: Snowflake }[]>`
      SELECT u.channel_id FROM (SELECT file FROM uploads WHERE hash = ${hash} ORDER BY created_at DESC LIMIT ${limit}) f
        JOIN upload_uses u USING (file)
        LEFT JOIN channels c ON c.id = u.channel_id LEFT JOIN direct_channels d ON d.id = u.channel_id
      WHERE d.user_id = ${user} OR d.other_id = ${user}
        OR EXISTS (SELECT FROM members m WHERE m.server_id = c.server_id AND m.user_id = ${user})
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
    const locked = await inTransaction(sql, async own => {
      const loose = await own<{ file: string }[]>`
        SELECT file FROM uploads WHERE keep_until <= ${now} ${files ? sql`AND file = ANY(${[...files]}::text[])` : sql``} LIMIT ${limit} FOR UPDATE SKIP LOCKED`
      if (loose.length === 0) return undefined
      // What shows them is read once they are locked (FILE1): a statement does not see what was committed after it began.
      const [row] = await own<Released[]>`
        WITH loose AS MATERIALIZED (
            SELECT file, EXISTS (SELECT FROM upload_uses s WHERE s.file = l.file) AS is_shown FROM unnest(${column(loose, "file")}::text[]) AS l (file)),
          kept AS (UPDATE uploads SET keep_until = NULL WHERE file IN (SELECT file FROM loose WHERE is_shown)),
          gone AS (DELETE FROM uploads WHERE file IN (SELECT file FROM loose WHERE NOT is_shown) RETURNING file, hash, is_shared),
          ${released(own)}
        SELECT ${releasedColumns(own)}`
      return { looked: loose.length, ...row! }
    })
    if (!locked) return { looked: 0, keys: [] }
    const { looked, keys, hashes } = locked
    return { looked, keys: [...keys, ...(await endUnusedContents(sql, hashes))] }
  },

  /**
   * Ends some of somebody's, whatever shows them. @returns how many, and what their files are kept
   * under (FILE2)
   */
  async endOf(user: Snowflake, limit: number): Promise<{ ended: number; keys: string[] }> {
    const [row] = await sql<({ ended: number } & Released)[]>`
      WITH own AS MATERIALIZED (SELECT file FROM uploads WHERE user_id = ${user} LIMIT ${limit} FOR UPDATE),
        shown AS (DELETE FROM upload_uses WHERE file IN (SELECT file FROM own)),
        gone AS (DELETE FROM uploads WHERE file IN (SELECT file FROM own) RETURNING file, hash, is_shared),
        ${released(sql)}
      SELECT (SELECT count(*)::int FROM gone) AS ended, ${releasedColumns(sql)}`
    return { ended: row!.ended, keys: [...row!.keys, ...(await endUnusedContents(sql, row!.hashes))] }
  },

  /** Ends some contents that no upload names. @returns what they were kept under (FILE2) */
  async endUnusedContents(limit: number): Promise<string[]> {
    const rows = await sql<{ hash: string }[]>`SELECT hash FROM upload_contents WHERE uses = 0 LIMIT ${limit}`
    return endUnusedContents(
      sql,
      rows.map(({ hash }) => hash),
    )
  },
})

/** What is kept, under a name of which there is a note that it is unused. */
export interface KeptContent {
  readonly blob: string
  /** What the same bytes were kept under where nothing is. */
  readonly missing: string | undefined
  /** Its perceptual hash; empty: it has none; null: that is still to be found out. */
  readonly phash: string | null
}

/**
 * Parts of a statement that inserts an upload, see FILE3: `content` has one row, with what the bytes
 * are kept under, or none where the note is gone. `where`: a condition more.
 */
export const keptContent = (
  sql: Statements,
  { hash, size, blob, missing, phash }: KeptContent & { hash: string; size: number },
  where: Statement = sql`true`,
): Statement => sql`
  noted AS MATERIALIZED (SELECT key FROM unused_files WHERE key = ${uploadFile(blob)} AND ${where} FOR UPDATE),
  content AS (
    INSERT INTO upload_contents AS c (hash, blob, size, uses, phash)
    SELECT ${hash}, ${blob}, ${size}, 1, ${phash}::text FROM noted
    ON CONFLICT (hash) DO UPDATE SET uses = c.uses + 1, missing_since = NULL,
      blob = CASE WHEN c.blob = ${missing ?? null}::text THEN excluded.blob ELSE c.blob END,
      phash = coalesce(nullif(excluded.phash, ''), c.phash)
    RETURNING c.blob),
  used AS (DELETE FROM unused_files USING content WHERE key = ${uploadFile(blob)} AND content.blob = ${blob}),
  lost AS (
    INSERT INTO unused_files (key, since) SELECT ${uploadFiles}::text || ${missing ?? null}::text, 0 FROM content
    WHERE content.blob = ${blob} AND ${missing ?? null}::text IS NOT NULL ON CONFLICT (key) DO NOTHING)`

/** What these bytes were kept under once, where their file is no longer there as it was. */
export async function missingBlob(
  uploads: Pick<ReturnType<typeof uploadsStorage>, "contentOf">,
  blobs: Blobs,
  hash: string,
): Promise<string | undefined> {
  const known = await uploads.contentOf(hash)
  if (!known) return undefined
  return (await isWhole(blobs, known)) ? undefined : known.blob
}

/** Whether the file of a content is there, as long as it should be. */
export async function isWhole(blobs: Blobs, { blob, size }: { blob: string; size: number }): Promise<boolean> {
  const opened = await blobs.open(uploadFile(blob))
  await opened?.close()
  return opened?.size === size
}

interface Released {
  readonly keys: string[]
  /** Contents that fewer uploads name. */
  readonly hashes: string[]
}

/** Uploads are gone: a part of the statement that deletes them as `gone` (FILE2, FILE3). */
const released = (sql: Statements): Statement => sql`
  own_files AS (SELECT ${uploadFiles}::text || file AS key FROM gone WHERE NOT is_shared),
  noted AS (INSERT INTO unused_files (key, since) SELECT key, 0 FROM own_files ON CONFLICT (key) DO NOTHING),
  shared AS (SELECT hash, count(*)::int AS uses FROM gone WHERE is_shared GROUP BY hash),
  counted AS (UPDATE upload_contents c SET uses = greatest(c.uses - shared.uses, 0) FROM shared WHERE c.hash = shared.hash)`

const releasedColumns = (sql: Statements): Statement => sql`
  coalesce((SELECT array_agg(key) FROM own_files), '{}') AS keys,
  coalesce((SELECT array_agg(hash) FROM shared), '{}') AS hashes`

/** What was used again meanwhile stays. */
async function endUnusedContents(sql: Sql, hashes: readonly string[]): Promise<string[]> {
  if (hashes.length === 0) return []
  const rows = await sql<{ key: string }[]>`
    WITH gone AS (DELETE FROM upload_contents WHERE uses = 0 AND hash = ANY(${[...hashes]}::text[]) RETURNING ${uploadFiles}::text || blob AS key),
      noted AS (INSERT INTO unused_files (key, since) SELECT key, 0 FROM gone ON CONFLICT (key) DO NOTHING)
    SELECT key FROM gone`
  return rows.map(({ key }) => key)
}
