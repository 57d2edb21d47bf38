import type { Sql } from "../core/database.ts"

/** What the files of uploads hold, by its hash: looked at by jobs. uploads.ts keeps it (FILE3). */
export const uploadContentsStorage = (sql: Sql) => ({
  /**
   * Contents after one in order of their hashes, with what they are kept under. Their `uses` is set
   * right where no upload names them: a version before deletes uploads and does not count. What
   * somebody has changed meanwhile is left to the next look.
   */
  async contentsAfter(after: string, limit: number): Promise<{ hash: string; blob: string; size: number }[]> {
    return sql<{ hash: string; blob: string; size: number }[]>`
      WITH page AS MATERIALIZED (
          SELECT hash, blob, size, uses FROM upload_contents WHERE hash > ${after} ORDER BY hash LIMIT ${limit}),
        counted AS (
          UPDATE upload_contents c SET uses = 0 FROM page WHERE c.hash = page.hash AND c.uses = page.uses AND page.uses > 0
            AND NOT EXISTS (SELECT FROM uploads u WHERE u.hash = page.hash AND u.is_shared))
      SELECT hash, blob, size FROM page ORDER BY hash`
  },

  /** Whether the files of these contents were found. */
  async noteMissing(missing: readonly string[], found: readonly string[], now: number): Promise<void> {
    await sql`
      UPDATE upload_contents SET missing_since = CASE WHEN hash = ANY(${[...missing]}::text[]) THEN coalesce(missing_since, ${now}::bigint) END
      WHERE hash = ANY(${[...missing]}::text[]) OR (hash = ANY(${[...found]}::text[]) AND missing_since IS NOT NULL)`
  },

  /** Contents whose files a sweep did not find, with one upload of each. */
  async missing(limit: number): Promise<{ hash: string; blob: string; missing_since: number; uses: number }[]> {
    return sql<{ hash: string; blob: string; missing_since: number; uses: number }[]>`
      SELECT hash, blob, missing_since, uses FROM upload_contents WHERE missing_since IS NOT NULL ORDER BY hash LIMIT ${limit}`
  },

  /** Pictures that have no perceptual hash yet. */
  async unhashed(limit: number): Promise<string[]> {
    const rows = await sql<{ hash: string }[]>`SELECT hash FROM upload_contents WHERE phash IS NULL LIMIT ${limit}`
    return rows.map(({ hash }) => hash)
  },

  /** Pictures of those that have none yet. */
  async unhashedOf(hash: string): Promise<{ blob: string; size: number } | undefined> {
    const [found] = await sql<{ blob: string; size: number }[]>`
      SELECT blob, size FROM upload_contents WHERE hash = ${hash} AND phash IS NULL`
    return found
  },

  /** `phash` is empty where there is none. */
  async putPhash(hash: string, phash: string): Promise<void> {
    await sql`UPDATE upload_contents SET phash = ${phash} WHERE hash = ${hash}`
  },
})
