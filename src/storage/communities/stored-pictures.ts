import type { Snowflake } from "../../contract/core/fields.ts"
import type { FileState } from "../../domain/core/file-types.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

/** A picture of a server's. `id`: of the emoji or the sticker; of an icon the server's. */
export interface StoredPicture {
  readonly kind: "icon" | "emoji" | "sticker"
  readonly id: Snowflake
  readonly server_id: Snowflake
  readonly file: string
}

type RenewedPicture = FileState & Pick<StoredPicture, "kind" | "id">

/** The same picture is in another file from now on. */
export const renewPicture = defineWrite<RenewedPicture>("renewPicture", (sql, rows) => {
  const last = lastOf(rows, row => `${row.kind} ${row.id}`)
  const change = sql`file = t.file, content_type = t.content_type, hash = t.hash, size = t.size, is_encoded = true FROM t`
  return sql`
    WITH t AS (SELECT * FROM unnest(${column(last, "kind")}::text[], ${column(last, "id")}::bigint[], ${column(last, "file")}::text[],
        ${column(last, "content_type")}::text[], ${column(last, "hash")}::text[], ${column(last, "size")}::int[])
        AS t (kind, id, file, content_type, hash, size)),
      icons AS (UPDATE server_icons SET ${change} WHERE t.kind = 'icon' AND server_icons.server_id = t.id),
      emoji AS (UPDATE emojis SET ${change} WHERE t.kind = 'emoji' AND emojis.id = t.id)
    UPDATE stickers SET ${change} WHERE t.kind = 'sticker' AND stickers.id = t.id`
})

export const storedPicturesStorage = (sql: Sql) => ({
  /** Some of those that are kept as they were uploaded and are to be encoded again. */
  async asUploaded(limit: number): Promise<StoredPicture[]> {
    return sql<StoredPicture[]>`
      (SELECT 'icon' AS kind, server_id AS id, server_id, file FROM server_icons WHERE NOT is_encoded ORDER BY server_id LIMIT ${limit})
      UNION ALL (SELECT 'emoji', id, server_id, file FROM emojis WHERE NOT is_encoded ORDER BY id LIMIT ${limit})
      UNION ALL (SELECT 'sticker', id, server_id, file FROM stickers WHERE NOT is_encoded AND format <> 'json' ORDER BY id LIMIT ${limit})
      LIMIT ${limit}`
  },

  /** It cannot be encoded again, and stays as it is. */
  async leaveAsUploaded({ kind, id, file }: StoredPicture): Promise<void> {
    await sql`
      WITH icons AS (UPDATE server_icons SET is_encoded = NULL WHERE ${kind} = 'icon' AND server_id = ${id} AND file = ${file}),
        emoji AS (UPDATE emojis SET is_encoded = NULL WHERE ${kind} = 'emoji' AND id = ${id} AND file = ${file})
      UPDATE stickers SET is_encoded = NULL WHERE ${kind} = 'sticker' AND id = ${id} AND file = ${file}`
  },
})
