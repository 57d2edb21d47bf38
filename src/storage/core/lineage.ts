import type { Sql } from "./database.ts"

/** What PostgreSQL says of its past. */
export interface DatabaseState {
  /** Made with its data folder; undefined where this user may not ask. */
  readonly system: string | undefined
  /** Made with the tables: others have it after a restore into an empty database. */
  readonly tables: string
  /** One past the highest transaction that has ended. It rises, unless an earlier copy takes the place. */
  readonly transaction: number
  /** Whether it has heard of the worker that asks. */
  readonly isEnrolled: boolean
}

/** Whether PostgreSQL still has what it committed: what an ordinary user may ask about that. */
export function lineageStorage(sql: Sql) {
  /** Some hosted services do not let everybody ask for the system: then it is asked for apart. */
  let isInOne = true

  const progressOf = (incarnation: string) => sql`
    pg_snapshot_xmax(pg_current_snapshot())::text AS transaction, 'shards'::regclass::oid::text AS tables,
    EXISTS (SELECT FROM incarnations WHERE id = ${incarnation}) AS is_enrolled`

  async function all(incarnation: string): Promise<StateRow> {
    const [state] = await sql<[StateRow]>`
      SELECT (SELECT system_identifier::text FROM pg_control_system()) AS system, ${progressOf(incarnation)}`
    return state
  }

  async function each(incarnation: string): Promise<StateRow> {
    const [[state], system] = await Promise.all([
      sql<[StateRow]>`SELECT ${progressOf(incarnation)}`,
      unlessRefused(sql<{ system: string }[]>`SELECT system_identifier::text AS system FROM pg_control_system()`),
    ])
    return { ...state, system: system?.[0]?.system }
  }

  return {
    async state(incarnation: string): Promise<DatabaseState> {
      const whole = isInOne ? await unlessRefused(all(incarnation)) : undefined
      if (!whole) isInOne = false
      const { system, tables, transaction, is_enrolled } = whole ?? (await each(incarnation))
      return { system, tables, transaction: Number(transaction), isEnrolled: is_enrolled }
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
  }
}

interface StateRow {
  readonly system?: string | undefined
  readonly tables: string
  readonly transaction: string
  readonly is_enrolled: boolean
}

async function unlessRefused<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    if (isRefused(error)) return undefined
    throw error
  }
}

/** The function is another's, or is not there. */
const isRefused = (error: unknown): boolean =>
  error instanceof Error && "code" in error && (error.code === "42501" || error.code === "42883")
