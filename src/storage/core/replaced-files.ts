import type { FileState } from "../../domain/core/file-types.ts"
import { numbers, texts, type StatementPart } from "./write.ts"

/** The lists of `file, content_type, hash, size`. */
export const fileLists = (rows: readonly FileState[]): string[] => [
  texts(rows, row => row.file),
  texts(rows, row => row.content_type),
  texts(rows, row => row.hash),
  numbers(rows, row => row.size),
]

/** A row names one file instead of another, or instead of none. */
export interface ReplacedFile {
  readonly key: string
  readonly former: string | undefined
  /** Unix seconds. */
  readonly since: number
}

/**
 * What `useFile` and `discardFile` (messages/files.ts) do of several rows, as parts of a WITH query. A file that a later row
 * of them replaces stays noted. `standing`: a condition without which nothing is written.
 */
export function replacedFiles(rows: readonly ReplacedFile[], standing: string): StatementPart {
  const used = new Set(rows.map(({ key }) => key))
  const discarded = new Map(
    rows.flatMap(({ former, since }) => (former === undefined ? [] : [[former, since] as const])),
  )
  for (const key of discarded.keys()) if (used.delete(key)) discarded.delete(key)
  const notes = [...discarded]
  return {
    text: before => `
      used AS (DELETE FROM unused_files WHERE key = ANY($${before + 1}::text[]) AND ${standing}),
      discarded AS (
        INSERT INTO unused_files (key, since)
        SELECT * FROM unnest($${before + 2}::text[], $${before + 3}::bigint[]) AS t (key, since) WHERE ${standing}
        ON CONFLICT (key) DO NOTHING)`,
    parameters: [texts([...used], key => key), texts(notes, ([key]) => key), numbers(notes, ([, since]) => since)],
  }
}
