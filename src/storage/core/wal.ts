import type { Sql } from "./database.ts"

/** How far PostgreSQL, or a copy of it, is. */
export const walStorage = (sql: Sql) => ({
  /** Everything that was committed before is below it. */
  async written(): Promise<bigint> {
    const [row] = await sql<[{ lsn: string }]>`SELECT pg_current_wal_lsn()::text AS lsn`
    return positionOf(row.lsn)
  },

  /** What a copy shows to those who ask it; undefined: this is no copy. */
  async replayed(): Promise<bigint | undefined> {
    const [row] = await sql<[{ lsn: string | null }]>`
      SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()::text END AS lsn`
    return row.lsn === null ? undefined : positionOf(row.lsn)
  },
})

/** `16/B374D848` */
function positionOf(lsn: string): bigint {
  const [high, low] = lsn.split("/")
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`)
}
