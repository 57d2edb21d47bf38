import type { Snowflake } from "../../contract/core/fields.ts"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import type { Sql } from "./database.ts"
import { column, defineWrite } from "./write.ts"

export const personalData: PersonalData = {
  others: {
    tells_seen: { why: "Numbers of words between processes; gone after a day" },
  },
}

/** Where a tell stands in its sender's outbox, and whose home received it. */
export interface TellMark {
  shard: number
  source: number
  number: number
  item: number
  home: Snowflake
}

/** Committed with what the tell did: the same tell is not done twice. */
export const markTell = defineWrite<TellMark>(
  "markTell",
  (sql, rows) => sql`
    INSERT INTO tells_seen (shard, source, number, item, home)
    SELECT * FROM unnest(${column(rows, "shard")}::smallint[], ${column(rows, "source")}::smallint[], ${column(rows, "number")}::bigint[],
      ${column(rows, "item")}::int[], ${column(rows, "home")}::bigint[])`,
  { tells_seen_pkey: "done" },
)

export const tellsStorage = (sql: Sql) => ({
  async wasSeen({ shard, source, number, item }: Omit<TellMark, "home">): Promise<boolean> {
    const [row] =
      await sql`SELECT 1 FROM tells_seen WHERE shard = ${shard} AND source = ${source} AND number = ${number} AND item = ${item}`
    return row !== undefined
  },

  /** A sender forgets a confirmed tell within seconds; marks are kept a day. */
  async forgetOld(limit: number): Promise<number> {
    const rows = await sql`
      DELETE FROM tells_seen WHERE (shard, source, number, item) IN (
        SELECT shard, source, number, item FROM tells_seen WHERE seen_at < now() - interval '1 day' LIMIT ${limit}) RETURNING 1`
    return rows.length
  },
})
