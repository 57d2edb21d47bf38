import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { shardOf } from "../../domain/core/snowflake.ts"
import type { FileState } from "../../domain/core/file-types.ts"
import type { StickerPackState, StickerState } from "../../domain/communities/stickers.ts"
import { encodedReason, nameOfFile, type PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    stickers: {
      userColumns: ["created_by"],
      key: { id: "bigint" },
      given: [
        "id",
        "pack_id",
        "server_id",
        "name",
        "format",
        "tags",
        "related_emoji",
        "content_type",
        "hash",
        "size",
        "width",
        "height",
        "uses",
        "created_by",
        "created_at",
      ],
      leftOut: { is_encoded: encodedReason, file: nameOfFile },
      atPurge: "kept",
    },
  },
  others: {
    sticker_packs: { why: "They are a server's" },
  },
}

type PackRow = Omit<StickerPackState, "stickers">

export const insertStickerPack = defineWrite<PackRow>(
  "insertStickerPack",
  (sql, rows) => sql`
    INSERT INTO sticker_packs (id, server_id, name, description)
    SELECT * FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "server_id")}::bigint[], ${column(rows, "name")}::text[],
      ${column(rows, "description")}::text[])`,
)

/** With its stickers. */
export const deleteStickerPack = defineWrite<{ id: Snowflake }>(
  "deleteStickerPack",
  (sql, rows) => sql`DELETE FROM sticker_packs WHERE id = ANY(${column(rows, "id")}::bigint[])`,
)

export const insertSticker = defineWrite<StickerState>(
  "insertSticker",
  (sql, rows) => sql`
    INSERT INTO stickers (id, pack_id, server_id, name, format, tags, related_emoji, file, content_type, hash, size, width, height, created_by, created_at, is_encoded)
    SELECT t.id, t.pack_id, t.server_id, t.name, t.format, ARRAY(SELECT jsonb_array_elements_text(t.tags::jsonb)), t.related_emoji, t.file,
      t.content_type, t.hash, t.size, t.width, t.height, t.created_by, t.created_at, true
    FROM unnest(${column(rows, "id")}::bigint[], ${column(rows, "pack_id")}::bigint[], ${column(rows, "server_id")}::bigint[], ${column(rows, "name")}::text[],
      ${column(rows, "format")}::text[], ${rows.map(row => JSON.stringify(row.tags))}::text[], ${column(rows, "related_emoji")}::text[], ${column(rows, "file")}::text[],
      ${column(rows, "content_type")}::text[], ${column(rows, "hash")}::text[], ${column(rows, "size")}::int[], ${column(rows, "width")}::int[],
      ${column(rows, "height")}::int[], ${column(rows, "created_by")}::bigint[], ${column(rows, "created_at")}::bigint[])
      AS t (id, pack_id, server_id, name, format, tags, related_emoji, file, content_type, hash, size, width, height, created_by, created_at)`,
)

export const deleteSticker = defineWrite<{ id: Snowflake }>(
  "deleteSticker",
  (sql, rows) => sql`DELETE FROM stickers WHERE id = ANY(${column(rows, "id")}::bigint[])`,
)

export const countStickerUse = defineWrite<{ id: Snowflake }>(
  "countStickerUse",
  (sql, rows) => sql`
    UPDATE stickers SET uses = uses + t.count
    FROM (SELECT id, count(*) FROM unnest(${column(rows, "id")}::bigint[]) AS id GROUP BY id) AS t WHERE stickers.id = t.id`,
)

const columns = [
  "id", "pack_id", "server_id", "name", "format", "tags", "related_emoji", "file", "content_type", "hash", "size", "width", "height",
  "created_by", "created_at",
] as const // prettier-ignore

export const stickersStorage = (sql: Sql) => ({
  /** Packs in the order in which they were begun. */
  async packs(server: Snowflake): Promise<StickerPackState[]> {
    const [packs, stickers] = await Promise.all([
      sql<PackRow[]>`
        SELECT id, server_id, name, description FROM sticker_packs WHERE server_id = ${server} ORDER BY id`,
      sql<StickerState[]>`SELECT ${sql(columns)} FROM stickers WHERE server_id = ${server} ORDER BY id`,
    ])
    return packs.map(pack => ({ ...pack, stickers: stickers.filter(({ pack_id }) => pack_id === pack.id) }))
  },

  async serverOf(id: Snowflake): Promise<Snowflake | undefined> {
    const [row] = await sql<{ server_id: Snowflake }[]>`SELECT server_id FROM stickers WHERE id = ${id}`
    return row?.server_id
  },

  async file(id: Snowflake): Promise<(FileState & { server_id: Snowflake }) | undefined> {
    const [row] = await sql<(FileState & { server_id: Snowflake })[]>`
      SELECT server_id, file, content_type, hash, size FROM stickers WHERE id = ${id}`
    return row
  },

  /**
   * Whether a message is the user's own and still exists, in a server that they are in: its id
   * names the shard of that server.
   */
  async isOwnMessage(user: Snowflake, message: Snowflake): Promise<boolean> {
    const found = await sql`
      SELECT FROM members me JOIN channels c ON c.server_id = me.server_id JOIN messages m ON m.channel_id = c.id AND m.id = ${message}
      WHERE me.user_id = ${user} AND (me.server_id >> 12) & 1023 = ${shardOf(message)} AND m.author_id = ${user} AND NOT m.deleted LIMIT 1`
    return found.length > 0
  },

  /**
   * Of servers that a user is in: what a text names, or tags with one of its words; the most used
   * first. Texts are small letters. Who is in many servers does not cost what all of their stickers
   * do.
   */
  async suggested(
    user: Snowflake,
    {
      text,
      words,
      server_id,
      limit,
    }: { text: string; words: readonly string[]; server_id?: Snowflake | undefined; limit: number },
  ): Promise<StickerState[]> {
    return sql<StickerState[]>`
      SELECT ${sql(columns.map(name => `s.${name}`))} FROM members me CROSS JOIN LATERAL (
        SELECT * FROM stickers WHERE server_id = me.server_id
        ORDER BY uses DESC, id LIMIT ${server_id === undefined ? limits.stickersLookedUp : null}::int) AS s
      WHERE me.user_id = ${user} ${server_id === undefined ? sql`` : sql`AND me.server_id = ${server_id}`}
        AND (s.tags && ${[...words]}::text[]
          OR EXISTS (SELECT FROM unnest(s.tags) AS tag WHERE position(' ' IN tag) > 0 AND position(tag IN ${text}) > 0)
          OR position(lower(s.name) IN ${text}) > 0 OR position(${text} IN lower(s.name)) > 0)
      ORDER BY s.uses DESC, s.id LIMIT ${limit}`
  },
})
