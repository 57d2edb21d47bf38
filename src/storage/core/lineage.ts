import type { Sql } from "./database.ts"

/** What PostgreSQL says of its past. */
export interface DatabaseState {
  /** Made with its data folder; undefined where this user may not ask. */
  readonly system: string | undefined
  /** One past the highest transaction that has ended. It rises, unless an earlier copy takes the place. */
  readonly transaction: number
  /** Whether it has heard of the worker that asks. */
  readonly isEnrolled: boolean
}

/** Whether PostgreSQL still has what it committed: what an ordinary user may ask about that. */
export const lineageStorage = (sql: Sql) => ({
  async state(incarnation: string): Promise<DatabaseState> {
    const [[state], system] = await Promise.all([
      sql<{ transaction: string; is_enrolled: boolean }[]>`
        SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS transaction,
          EXISTS (SELECT FROM incarnations WHERE id = ${incarnation}) AS is_enrolled`,
      // Some hosted services do not let everybody ask.
      sql<{ system: string }[]>`SELECT system_identifier::text AS system FROM pg_control_system()`.catch(
        (error: unknown) => {
          if (isRefused(error)) return []
          throw error
        },
      ),
    ])
    return {
      system: system[0]?.system,
      transaction: Number(state!.transaction),
      isEnrolled: state!.is_enrolled,
    }
  },

  /**
   * A shard of which PostgreSQL has no row with this number or a higher one; the newest row of a
   * shard is never deleted.
   */
  async shardBehind(rows: readonly { shard: number; number: number }[]): Promise<number | undefined> {
    if (rows.length === 0) return undefined
    const [behind] = await sql<{ shard: number }[]>`
      SELECT t.shard
      FROM unnest(${rows.map(row => row.shard)}::smallint[], ${rows.map(row => row.number)}::bigint[]) AS t (shard, number)
      WHERE COALESCE((SELECT max(o.number) FROM outbox o WHERE o.shard = t.shard), 0) < t.number
      LIMIT 1`
    return behind?.shard
  },
})

/** The function is another's, or is not there. */
const isRefused = (error: unknown): boolean =>
  error instanceof Error && "code" in error && (error.code === "42501" || error.code === "42883")
