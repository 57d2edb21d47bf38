import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { areFilesFree } from "../core/file-hold.ts"
import { column, defineWrite } from "../core/write.ts"

export const personalData: PersonalData = {
  others: {
    unused_files: { why: "Names of files that nothing leads to; gone within hours" },
  },
}

/**
 * Which files no row names: one is noted here before it is written, and again when its row goes.
 * What stays here is deleted, so neither a worker that dies between a file and its row nor a job
 * that is lost leaves a file behind.
 */

/** A row names the file from now on. */
export const useFile = defineWrite<{ key: string }>(
  "useFile",
  (sql, rows) => sql`DELETE FROM unused_files WHERE key = ANY(${column(rows, "key")}::text[])`,
)

/** No row names it any longer. `since`: Unix seconds. */
export const discardFile = defineWrite<{ key: string; since: number }>(
  "discardFile",
  (sql, rows) => sql`
    INSERT INTO unused_files (key, since) SELECT DISTINCT ON (key) * FROM unnest(${column(rows, "key")}::text[], ${column(rows, "since")}::bigint[]) AS t (key, since)
    ON CONFLICT (key) DO NOTHING`,
)

export const filesStorage = (sql: Sql) => ({
  /** Before files are written. */
  async announce(keys: string | readonly string[], now: number): Promise<void> {
    const all = typeof keys === "string" ? [keys] : [...keys]
    await sql`INSERT INTO unused_files (key, since) SELECT key, ${now}::bigint FROM unnest(${all}::text[]) AS t (key)`
  },

  /** Whether a backup copies files, so that none may be deleted now. */
  async areHeld(): Promise<boolean> {
    const [row] = await sql<[{ held: boolean }]>`SELECT NOT ${areFilesFree(sql)} AS held`
    return row.held
  },

  /** Those of them that no row names; none while files are held. */
  async unusedOf(keys: readonly string[]): Promise<string[]> {
    const rows = await sql<
      { key: string }[]
    >`SELECT key FROM unused_files WHERE key = ANY(${[...keys]}::text[]) AND ${areFilesFree(sql)}`
    return rows.map(({ key }) => key)
  },

  /** Those that have been here since `before`, the longest first. */
  async unused(before: number, limit: number): Promise<string[]> {
    const rows = await sql<{ key: string }[]>`
      SELECT key FROM unused_files WHERE since <= ${before} ORDER BY since, key LIMIT ${limit}`
    return rows.map(({ key }) => key)
  },

  /** It could not be deleted: from now on it has been here since `now`. */
  async putOff(key: string, now: number): Promise<void> {
    await sql`UPDATE unused_files SET since = ${now} WHERE key = ${key}`
  },

  /** They are deleted. */
  async forget(keys: readonly string[]): Promise<void> {
    await sql`DELETE FROM unused_files WHERE key = ANY(${[...keys]}::text[])`
  },
})
