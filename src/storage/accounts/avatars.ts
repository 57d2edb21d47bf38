import type { Snowflake } from "../../contract/core/fields.ts"
import type { FileState } from "../../domain/core/file-types.ts"
import { nameOfFile, type PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { fileLists, replacedFiles, type ReplacedFile } from "../core/replaced-files.ts"
import { column, defineWrite, lastOf, numbers, type StatementPart } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    user_avatars: {
      userColumns: ["user_id"],
      key: { user_id: "bigint" },
      given: ["user_id", "content_type", "hash", "size"],
      leftOut: { file: nameOfFile },
      atPurge: "ended",
    },
  },
}

type PutAvatar = FileState & ReplacedFile & { user_id: Snowflake }

/** Parts of the statement by which files are used from now on, and those before are discarded. */
function putAll(rows: readonly PutAvatar[], standing: string): { notes: StatementPart; put: StatementPart } {
  const last = lastOf(rows, row => row.user_id)
  const put = {
    text: (before: number) => `
      INSERT INTO user_avatars (user_id, file, content_type, hash, size)
      SELECT * FROM unnest($${before + 1}::bigint[], $${before + 2}::text[], $${before + 3}::text[], $${before + 4}::text[], $${before + 5}::int[]) AS t
      WHERE ${standing}
      ON CONFLICT (user_id) DO UPDATE SET file = excluded.file, content_type = excluded.content_type, hash = excluded.hash, size = excluded.size`,
    parameters: [numbers(last, row => row.user_id), ...fileLists(last)],
  }
  return { notes: replacedFiles(rows, standing), put }
}

export const putAvatar = defineWrite<PutAvatar>(
  "putAvatar",
  (sql, rows) => {
    const { notes, put } = putAll(rows, "true")
    const text = `WITH ${notes.text(0)} ${put.text(notes.parameters.length)}`
    return sql.unsafe(text, [...notes.parameters, ...put.parameters], { prepare: true })
  },
  {},
  rows => {
    const { notes, put } = putAll(rows, "EXISTS (SELECT FROM lane)")
    return {
      text: before => `${notes.text(before)}, put AS (${put.text(before + notes.parameters.length)})`,
      parameters: [...notes.parameters, ...put.parameters],
    }
  },
)

export const deleteAvatar = defineWrite<{ user_id: Snowflake }>(
  "deleteAvatar",
  (sql, rows) => sql`DELETE FROM user_avatars WHERE user_id = ANY(${column(rows, "user_id")}::bigint[])`,
)

export const avatarsStorage = (sql: Sql) => ({
  async find(user: Snowflake): Promise<FileState | undefined> {
    const [row] = await sql<
      FileState[]
    >`SELECT file, content_type, hash, size FROM user_avatars WHERE user_id = ${user}`
    return row
  },

  /** A user's name, with their picture where they have one. */
  async shown(user: Snowflake): Promise<{ name: string; avatar: FileState | null } | undefined> {
    const [row] = await sql<({ name: string } & (FileState | Record<keyof FileState, null>))[]>`
      SELECT u.username AS name, a.file, a.content_type, a.hash, a.size
      FROM users u LEFT JOIN user_avatars a ON a.user_id = u.id WHERE u.id = ${user}`
    if (!row) return undefined
    const { name, ...avatar } = row
    return { name, avatar: avatar.file === null ? null : avatar }
  },
})
