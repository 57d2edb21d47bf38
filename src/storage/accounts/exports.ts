import type { Snowflake } from "../../contract/core/fields.ts"
import type { ExportState } from "../../domain/accounts/exports.ts"
import type { NamedTable, PersonalData, PersonalTable } from "../../domain/core/personal-data.ts"
import type { Sql } from "../core/database.ts"
import { column, defineWrite, lastOf } from "../core/write.ts"

export const personalData: PersonalData = {
  personal: {
    exports: {
      userColumns: ["user_id"],
      key: { id: "bigint" },
      given: ["id", "user_id", "requested_at", "attempt", "worked_at", "ready_at", "expires_at"],
      atPurge: "erased",
    },
  },
  others: {
    export_parts: { why: "The export itself; it goes with its row of exports" },
  },
}

export type ExportRow = ExportState & { user_id: Snowflake }

export const putExport = defineWrite<ExportRow>("putExport", (sql, rows) => {
  const last = lastOf(rows, row => row.id)
  return sql`
    INSERT INTO exports (id, user_id, requested_at, attempt, ready_at, expires_at)
    SELECT * FROM unnest(${column(last, "id")}::bigint[], ${column(last, "user_id")}::bigint[], ${column(last, "requested_at")}::bigint[],
      ${column(last, "attempt")}::integer[], ${column(last, "ready_at")}::bigint[], ${column(last, "expires_at")}::bigint[])
    ON CONFLICT (id) DO UPDATE SET attempt = excluded.attempt, ready_at = excluded.ready_at, expires_at = excluded.expires_at`
})

/** Where the rows of a table go on: the values of its key. */
export type Place = readonly string[]
export interface Page {
  readonly rows: Record<string, unknown>[]
  /** Undefined: there are no more. */
  readonly next: Place | undefined
}

export interface ExportPartRow {
  readonly export_id: Snowflake
  readonly attempt: number
  readonly number: number
  readonly name: string
  readonly rows: readonly Record<string, unknown>[]
}

/** What is given of a table: of columns that hold JSON without the keys that are left out. */
const givenOf = ({ given, leftOutOf = {} }: PersonalTable) =>
  given.map(name => {
    const keys = Object.keys(leftOutOf[name] ?? {})
    return keys.length === 0 ? name : `(${name}::jsonb - '{${keys.join(",")}}'::text[])::text AS ${name}`
  })
const keyOf = ({ key }: PersonalTable) => Object.keys(key).join(", ")
/** The key's columns as text, under names that no column has. */
const keyColumnsOf = ({ key }: PersonalTable) => Object.keys(key).map((name, i) => `${name}::text AS place_${i}`)
const boundOf = ({ key }: PersonalTable) =>
  `(${Object.values(key)
    .map((type, i) => `$${i + 2}::text::${type}`)
    .join(", ")})`

export const exportsStorage = (sql: Sql) => ({
  /** A user's latest, whatever became of it. */
  async latest(user: Snowflake): Promise<ExportState | undefined> {
    const [row] = await sql<ExportState[]>`
      SELECT id, requested_at, attempt, ready_at, expires_at FROM exports WHERE user_id = ${user} ORDER BY id DESC LIMIT 1`
    return row
  },

  /** A user's latest, whatever became of it, and their latest that can be fetched, which may be the same: as of one moment. */
  async latestTwo(
    user: Snowflake,
    now: number,
  ): Promise<{ latest: ExportState | undefined; ready: ExportState | undefined }> {
    const rows = await sql<ExportState[]>`
      SELECT id, requested_at, attempt, ready_at, expires_at FROM exports
      WHERE id = (SELECT max(id) FROM exports WHERE user_id = ${user})
        OR id = (SELECT max(id) FROM exports WHERE user_id = ${user} AND ready_at IS NOT NULL AND expires_at > ${now})
      ORDER BY id DESC`
    const ready = rows.find(({ ready_at, expires_at }) => ready_at !== null && expires_at !== null && expires_at > now)
    return { latest: rows[0], ready }
  },

  /** What an export holds, table by table. */
  async tables(
    id: Snowflake,
    attempt: number,
  ): Promise<{ name: string; rows: number; first_part: number; last_part: number }[]> {
    return sql<{ name: string; rows: number; first_part: number; last_part: number }[]>`
      SELECT name, sum(row_count)::int AS rows, min(number) AS first_part, max(number) AS last_part
      FROM export_parts WHERE export_id = ${id} AND attempt = ${attempt} GROUP BY name ORDER BY first_part`
  },

  async part(
    id: Snowflake,
    attempt: number,
    number: number,
  ): Promise<{ name: string; rows: string; parts: number } | undefined> {
    const [row] = await sql<{ name: string; rows: string; parts: number }[]>`
      SELECT name, rows, (SELECT count(*)::int FROM export_parts WHERE export_id = ${id} AND attempt = ${attempt}) AS parts
      FROM export_parts WHERE export_id = ${id} AND attempt = ${attempt} AND number = ${number}`
    return row
  },

  /**
   * What a table holds about a user, a page at a time, in the order of its key. `names`: what their
   * failed sign-ins stand under.
   */
  async rows(
    table: NamedTable,
    { user, names }: { user: Snowflake; names: readonly string[] },
    after: Place | undefined,
    limit: number,
  ): Promise<Page> {
    const isTheirs =
      table.userColumns === "names"
        ? `${Object.keys(table.key)[0]!} = ANY($1::text[])`
        : `(${table.userColumns.map(column => `${column} = $1::bigint`).join(" OR ")})`
    const found = await sql.unsafe<Record<string, unknown>[]>(
      `SELECT ${[...givenOf(table), ...keyColumnsOf(table)].join(", ")} FROM ${table.table}
       WHERE ${isTheirs} ${after ? `AND (${keyOf(table)}) > ${boundOf(table)}` : ""} ORDER BY ${keyOf(table)} LIMIT ${limit}`,
      [table.userColumns === "names" ? [...names] : user, ...(after ?? [])],
    )
    return pageOf(table, found, found.length === limit)
  },

  /**
   * What somebody wrote among the next messages of all: no index leads to an author's, so all are
   * looked at, so many in one statement.
   */
  async messages({ given }: PersonalTable, author: Snowflake, after: Place | undefined, slice: number): Promise<Page> {
    const [channel, id] = after ?? ["0", "0"]
    // Not under their own names: a text would be what it is ordered by.
    const [end] = await sql<{ end_channel: string; end_id: string }[]>`
      SELECT channel_id::text AS end_channel, id::text AS end_id FROM messages
      WHERE (channel_id, id) > (${channel!}::bigint, ${id!}::bigint) ORDER BY channel_id, id OFFSET ${slice - 1} LIMIT 1`
    const found = await sql<Record<string, unknown>[]>`
      SELECT ${sql(given as string[])} FROM messages
      WHERE author_id = ${author} AND (channel_id, id) > (${channel!}::bigint, ${id!}::bigint)
        ${end ? sql`AND (channel_id, id) <= (${end.end_channel}::bigint, ${end.end_id}::bigint)` : sql``}
      ORDER BY channel_id, id`
    return { rows: [...found], next: end && [end.end_channel, end.end_id] }
  },

  /** Adds a part of an attempt that is under way. @returns whether it still is */
  async addPart({ export_id, attempt, number, name, rows }: ExportPartRow, now: number): Promise<boolean> {
    const { count } = await sql`
      WITH current AS (
        UPDATE exports SET worked_at = ${now} WHERE id = ${export_id} AND attempt = ${attempt} AND ready_at IS NULL RETURNING id)
      INSERT INTO export_parts (export_id, attempt, number, name, row_count, rows)
      SELECT id, ${attempt}, ${number}, ${name}, ${rows.length}, ${JSON.stringify(rows)} FROM current`
    return count > 0
  },

  /** Says that somebody is at it. @returns whether the attempt is still under way */
  async touch(id: Snowflake, attempt: number, now: number): Promise<boolean> {
    const { count } = await sql`
      UPDATE exports SET worked_at = ${now} WHERE id = ${id} AND attempt = ${attempt} AND ready_at IS NULL`
    return count > 0
  },

  async forgetOtherAttempts(id: Snowflake, attempt: number): Promise<void> {
    await sql`DELETE FROM export_parts WHERE export_id = ${id} AND attempt <> ${attempt}`
  },

  /** What a newer one takes the place of. */
  async forgetEarlier(user: Snowflake, id: Snowflake): Promise<void> {
    await sql`DELETE FROM exports WHERE user_id = ${user} AND id < ${id}`
  },

  /**
   * Exports without progress for so many seconds, the longest first; the caller is assumed to begin
   * them.
   */
  async takeStuck(now: number, quiet: number, limit: number): Promise<{ id: Snowflake; user_id: Snowflake }[]> {
    return sql<{ id: Snowflake; user_id: Snowflake }[]>`
      WITH taken AS (
        UPDATE exports SET worked_at = ${now} WHERE id IN (
          SELECT id FROM exports WHERE ready_at IS NULL AND coalesce(worked_at, requested_at) <= ${now - quiet}
          ORDER BY requested_at LIMIT ${limit} FOR UPDATE SKIP LOCKED)
        RETURNING id, user_id, requested_at)
      SELECT id, user_id FROM taken ORDER BY requested_at, id`
  },

  async forgetExpired(now: number, limit: number): Promise<number> {
    const { count } = await sql`
      DELETE FROM exports WHERE id IN (SELECT id FROM exports WHERE expires_at <= ${now} ORDER BY expires_at LIMIT ${limit})`
    return count
  },
})

/** Takes the key's texts off the rows again, and gives values as people read them. */
function pageOf(
  { key, givenAs = {} }: PersonalTable,
  found: readonly Record<string, unknown>[],
  isFull: boolean,
): Page {
  const places = Object.keys(key).map((_, i) => `place_${i}`)
  const last = found.at(-1)
  const next = isFull && last ? places.map(place => last[place] as string) : undefined
  return {
    rows: found.map(row =>
      Object.fromEntries(
        Object.entries(row)
          .filter(([name]) => !places.includes(name))
          .map(([name, value]) => [name, givenAs[name]?.(value) ?? value]),
      ),
    ),
    next,
  }
}
