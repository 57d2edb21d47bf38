import type { Snowflake } from "../../contract/core/fields.ts"
import type { FileState } from "../../domain/core/file-types.ts"
import type { EmojiState } from "../../domain/communities/emojis.ts"
import { encodedReason, nameOfFile, type PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    emojis: {
      userColumns: ["created_by"],
      key: { id: "bigint" },
      given: ["id", "server_id", "name", "animated", "content_type", "hash", "size", "created_by", "created_at"],
      leftOut: { is_encoded: encodedReason, file: nameOfFile },
      atPurge: "kept",
    },
  },
}

export const insertEmoji = defineWrite<EmojiState>(
  "insertEmoji",
  (sql, rows) => sql`
    INSERT INTO emojis (id, server_id, name, animated, file, content_type, hash, size, created_by, created_at, is_encoded)
    SELECT t.*, true FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "server_id")}::bigint[], ${column(rows, "name")}::text[],
      ${column(rows, "animated")}::text[]::boolean[], ${column(rows, "file")}::text[], ${column(rows, "content_type")}::text[], ${column(rows, "hash")}::text[],
      ${column(rows, "size")}::int[], ${column(rows, "created_by")}::bigint[], ${column(rows, "created_at")}::bigint[]) AS t`,
)

export const renameEmoji = defineWrite<{ id: Snowflake; name: string }>("renameEmoji", (sql, rows) => {
  const last = lastOf(rows, row => row.id)
  return sql`
    UPDATE emojis SET name = t.name FROM unnest(${column(last, "id")}::bigint[], ${column(last, "name")}::text[]) AS t (id, name)
    WHERE emojis.id = t.id`
})

export const deleteEmoji = defineWrite<{ id: Snowflake }>(
  "deleteEmoji",
  (sql, rows) => sql`DELETE FROM emojis WHERE id = ANY(${column(rows, "id")}::bigint[])`,
)

export const emojisStorage = (sql: Sql) => ({
  async ofServer(server: Snowflake): Promise<EmojiState[]> {
    return sql<EmojiState[]>`
      SELECT id, server_id, name, animated, file, content_type, hash, size, created_by, created_at FROM emojis
      WHERE server_id = ${server} ORDER BY name`
  },

  /** What those who added the emoji of a server are called now. */
  async uploaders(server: Snowflake): Promise<Map<Snowflake, string>> {
    const rows = await sql<{ id: Snowflake; username: string }[]>`
      SELECT id, username FROM users WHERE id IN (SELECT created_by FROM emojis WHERE server_id = ${server})`
    return new Map(rows.map(({ id, username }) => [id, username]))
  },

  /** The server of an emoji, and whether a user is in it. */
  async usableBy(id: Snowflake, user: Snowflake): Promise<{ server_id: Snowflake; is_member: boolean } | undefined> {
    const [row] = await sql<{ server_id: Snowflake; is_member: boolean }[]>`
      SELECT server_id, EXISTS (SELECT FROM members m WHERE m.server_id = e.server_id AND m.user_id = ${user}) AS is_member
      FROM emojis e WHERE id = ${id}`
    return row
  },

  async file(id: Snowflake): Promise<(FileState & { server_id: Snowflake }) | undefined> {
    const [row] = await sql<(FileState & { server_id: Snowflake })[]>`
      SELECT server_id, file, content_type, hash, size FROM emojis WHERE id = ${id}`
    return row
  },
})
