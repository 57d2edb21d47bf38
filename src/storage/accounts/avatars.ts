import type { Snowflake } from "../../contract/core/fields.ts"
import type { FileState } from "../../domain/core/file-types.ts"
import { nameOfFile, type PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

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

export const putAvatar = defineWrite<FileState & { user_id: Snowflake }>("putAvatar", (sql, rows) => {
  const last = lastOf(rows, row => row.user_id)
  return sql`
    INSERT INTO user_avatars (user_id, file, content_type, hash, size)
    SELECT * FROM unnest(${column(last, "user_id")}::bigint[], ${column(last, "file")}::text[], ${column(last, "content_type")}::text[],
      ${column(last, "hash")}::text[], ${column(last, "size")}::int[])
    ON CONFLICT (user_id) DO UPDATE SET file = excluded.file, content_type = excluded.content_type, hash = excluded.hash, size = excluded.size`
})

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
