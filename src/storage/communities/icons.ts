import type { Snowflake } from "../../contract/core/fields.ts"
import type { FileState } from "../../domain/core/file-types.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { fileLists, replacedFiles, type ReplacedFile } from "../core/replaced-files.ts"
import { column, defineWrite, lastOf, numbers, texts } from "../core/write.ts"

export const personalData: PersonalData = {
  others: {
    server_icons: { why: "They are a server's" },
  },
}

type PutIcon = FileState & ReplacedFile & { server_id: Snowflake; icon_url: string }

/** The file is used from now on, and the one before is discarded. */
export const putIcon = defineWrite<PutIcon>("putIcon", (sql, rows) => {
  const last = lastOf(rows, row => row.server_id)
  const notes = replacedFiles(rows, "true")
  const text = `
    WITH ${notes.text(6)},
      t AS (SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::int[])
        AS t (server_id, icon_url, file, content_type, hash, size)),
      shown AS (UPDATE servers SET icon_url = t.icon_url FROM t WHERE servers.id = t.server_id)
    INSERT INTO server_icons (server_id, file, content_type, hash, size, is_encoded) SELECT server_id, file, content_type, hash, size, true FROM t
    ON CONFLICT (server_id) DO UPDATE SET file = excluded.file, content_type = excluded.content_type, hash = excluded.hash, size = excluded.size,
      is_encoded = true`
  const parameters = [
    numbers(last, row => row.server_id),
    texts(last, row => row.icon_url),
    ...fileLists(last),
    ...notes.parameters,
  ]
  return sql.unsafe(text, parameters, { prepare: true })
})

export const deleteIcon = defineWrite<{ server_id: Snowflake }>(
  "deleteIcon",
  (sql, rows) => sql`
    WITH shown AS (UPDATE servers SET icon_url = NULL WHERE id = ANY(${column(rows, "server_id")}::bigint[]))
    DELETE FROM server_icons WHERE server_id = ANY(${column(rows, "server_id")}::bigint[])`,
)

export const iconsStorage = (sql: Sql) => ({
  async find(server: Snowflake): Promise<FileState | undefined> {
    const [row] = await sql<
      FileState[]
    >`SELECT file, content_type, hash, size FROM server_icons WHERE server_id = ${server}`
    return row
  },

  /** A server's name, with its icon where it has one. */
  async shown(server: Snowflake): Promise<{ name: string; icon: FileState | null } | undefined> {
    const [row] = await sql<({ name: string } & (FileState | Record<keyof FileState, null>))[]>`
      SELECT s.name, i.file, i.content_type, i.hash, i.size FROM servers s LEFT JOIN server_icons i ON i.server_id = s.id WHERE s.id = ${server}`
    if (!row) return undefined
    const { name, ...icon } = row
    return { name, icon: icon.file === null ? null : icon }
  },
})
