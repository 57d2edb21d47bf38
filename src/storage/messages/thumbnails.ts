import type { Snowflake } from "../../contract/core/fields.ts"
import { thumbnailSides, type PictureFacts } from "../../domain/messages/attachments.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import { thumbnailFile } from "../core/blobs.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite } from "../core/write.ts"

export const personalData: PersonalData = {
  others: {
    upload_thumbnails: { why: "Smaller copies of pictures among the uploads; they go with those" },
    thumbnail_requests: { why: "Which messages wait for thumbnails" },
  },
}

/** What was made of an upload; a base of null: nothing. */
export type MadeThumbnails = ({ base: string } & PictureFacts) | { base: null }

interface Request {
  channel_id: Snowflake
  message_id: Snowflake
}

/** Kept until it is done, because the queue may lose the job. `since`: Unix seconds. */
export const insertThumbnailRequest = defineWrite<Request & { since: number }>(
  "insertThumbnailRequest",
  (sql, rows) => sql`
    INSERT INTO thumbnail_requests (channel_id, message_id, since)
    SELECT * FROM unnest(${column(rows, "channel_id")}::bigint[], ${column(rows, "message_id")}::bigint[], ${column(rows, "since")}::bigint[])
    ON CONFLICT DO NOTHING`,
)

export const endThumbnailRequest = defineWrite<Request>(
  "endThumbnailRequest",
  (sql, rows) => sql`
    DELETE FROM thumbnail_requests USING unnest(${column(rows, "channel_id")}::bigint[], ${column(rows, "message_id")}::bigint[]) AS t (channel_id, message_id)
    WHERE thumbnail_requests.channel_id = t.channel_id AND thumbnail_requests.message_id = t.message_id`,
)

export const thumbnailsStorage = (sql: Sql) => ({
  async find(files: readonly string[]): Promise<Map<string, MadeThumbnails>> {
    const rows = await sql<({ file: string } & MadeThumbnails)[]>`
      SELECT file, base, width, height, thumbhash FROM upload_thumbnails WHERE file = ANY(${[...files]}::text[])`
    return new Map(rows.map(({ file, ...made }) => [file, made]))
  },

  /**
   * What one run of the job made of an upload. @returns false: another run was first, or the upload
   * is gone; the notes that the files of this run are unused stay
   */
  async keep(file: string, made: MadeThumbnails): Promise<boolean> {
    const { base, width, height, thumbhash } = { width: null, height: null, thumbhash: null, ...made }
    const keys = base === null ? [] : thumbnailSides.map(side => thumbnailFile(base, side))
    const [row] = await sql<{ is_kept: boolean }[]>`
      WITH kept AS (
        INSERT INTO upload_thumbnails (file, base, width, height, thumbhash)
        SELECT file, ${base}::text, ${width}::int, ${height}::int, ${thumbhash}::text FROM uploads WHERE file = ${file} FOR KEY SHARE
        ON CONFLICT DO NOTHING RETURNING 1),
      used AS (DELETE FROM unused_files WHERE key = ANY(${keys}::text[]) AND EXISTS (SELECT FROM kept))
      SELECT EXISTS (SELECT FROM kept) AS is_kept`
    return row!.is_kept
  },

  /** Requests of before that moment, the longest first. */
  due: (before: number, limit: number): Promise<Request[]> => sql<Request[]>`
    SELECT channel_id, message_id FROM thumbnail_requests WHERE since <= ${before} ORDER BY since LIMIT ${limit}`,

  /** It cannot be done now: from now on it has been here since `now`. */
  async putOff({ channel_id, message_id }: Request, now: number): Promise<void> {
    await sql`UPDATE thumbnail_requests SET since = ${now} WHERE channel_id = ${channel_id} AND message_id = ${message_id}`
  },

  /** Its message is gone. */
  async forgetRequest({ channel_id, message_id }: Request): Promise<void> {
    await sql`DELETE FROM thumbnail_requests WHERE channel_id = ${channel_id} AND message_id = ${message_id}`
  },
})
