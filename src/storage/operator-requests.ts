import type { Snowflake } from "../contract/fields.ts"
import { epochMs } from "../domain/snowflake.ts"
import type { Sql } from "./database.ts"

/** What only running servers can do, because actors have to be asked. */
export type OperatorRequest = { readonly id: string } & (
  | { readonly kind: "force_logout"; readonly user_id: Snowflake; readonly message: string }
  | {
      readonly kind: "logout_all"
      readonly until_id: Snowflake
      /** Sessions that whoever had the request before has ended. */
      readonly ended: number
    }
)

/** `ended`: sessions. `failed`: users whose sessions could not be ended. */
export type OperatorAnswer = { readonly ended: number; readonly failed?: number } | { readonly refusal: string }

/** Seconds that a worker has a request to itself, unless it asks for more. */
const takenFor = 30
const retryAfter = 2
/** A request that fails again and again, or whose takers are gone before it is answered, is not tried again after so many. */
const mostAttempts = 5
/** Days that answered requests are kept. */
const keptDays = 30

/** Those that somebody has to take. */
export const openRequests = (sql: Sql) => sql`done_at IS NULL AND (taken_until IS NULL OR taken_until < now())`

export const operatorRequestsStorage = (sql: Sql) => ({
  async forceLogout(user: Snowflake, message: string): Promise<string> {
    const [row] = await sql<{ id: string }[]>`
      WITH old AS (DELETE FROM operator_requests WHERE done_at < now() - make_interval(days => ${keptDays}))
      INSERT INTO operator_requests (kind, user_id, message) VALUES ('force_logout', ${user}, ${message}) RETURNING id::text`
    return row!.id
  },

  /**
   * From here on the sessions that there are count for nothing; the request is only about taking them away. An id tells when it
   * was minted by the clock of its worker, which may be ahead of this one.
   */
  async logoutAll(): Promise<string> {
    const [row] = await sql<{ id: string }[]>`
      WITH old AS (DELETE FROM operator_requests WHERE done_at < now() - make_interval(days => ${keptDays})),
           reset AS (
             UPDATE service SET resets = resets + 1, reset_until = GREATEST(
               (SELECT coalesce(max(id), 0) FROM sessions),
               (((extract(epoch FROM clock_timestamp()) * 1000)::bigint - ${epochMs}::bigint) << 22) | ${2 ** 22 - 1}::bigint)
             RETURNING reset_until)
      INSERT INTO operator_requests (kind, until_id) SELECT 'logout_all', reset_until FROM reset RETURNING id::text`
    return row!.id
  },

  /** The oldest that nobody has; it is the worker's for a while. */
  async take(worker: string): Promise<OperatorRequest | undefined> {
    const [row] = await sql<(OperatorRequest & { isGivenUp: boolean })[]>`
      UPDATE operator_requests SET attempts = attempts + 1, taken_by = ${worker}, taken_until = now() + make_interval(secs => ${takenFor}),
        done_at = CASE WHEN attempts >= ${mostAttempts} THEN now() END,
        refusal = CASE WHEN attempts >= ${mostAttempts} THEN 'internal' END
      WHERE id = (SELECT id FROM operator_requests WHERE ${openRequests(sql)} ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
      RETURNING id::text, kind, user_id::text, message, until_id::text, coalesce(ended, 0) AS ended, done_at IS NOT NULL AS "isGivenUp"`
    return row?.isGivenUp ? undefined : row
  },

  /** `ended`: sessions so far, for whoever takes it over. @returns false when somebody has done so */
  async keep(id: string, worker: string, ended: number): Promise<boolean> {
    const rows = await sql`
      UPDATE operator_requests SET taken_until = now() + make_interval(secs => ${takenFor}), ended = ${ended}
      WHERE id = ${id} AND taken_by = ${worker} AND done_at IS NULL RETURNING 1`
    return rows.length > 0
  },

  /** To be tried again soon. `counts`: this attempt is one of those that it has; else nothing is wrong with the request itself. */
  async putBack(id: string, worker: string, counts: boolean): Promise<void> {
    await sql`
      UPDATE operator_requests SET taken_until = now() + make_interval(secs => ${retryAfter}), attempts = attempts - ${counts ? 0 : 1}
      WHERE id = ${id} AND taken_by = ${worker} AND done_at IS NULL`
  },

  async answer(id: string, answer: OperatorAnswer): Promise<void> {
    const {
      ended = null,
      failed = null,
      refusal = null,
    } = answer as {
      ended?: number
      failed?: number
      refusal?: string
    }
    await sql`
      UPDATE operator_requests SET done_at = now(), ended = ${ended}, failed = ${failed}, refusal = ${refusal}
      WHERE id = ${id} AND done_at IS NULL`
  },

  /** Undefined: not yet. */
  async answerTo(id: string): Promise<OperatorAnswer | undefined> {
    const [row] = await sql<{ ended: number | null; failed: number | null; refusal: string | null }[]>`
      SELECT ended, failed, refusal FROM operator_requests WHERE id = ${id} AND done_at IS NOT NULL`
    if (!row) return undefined
    if (row.refusal !== null) return { refusal: row.refusal }
    return { ended: row.ended ?? 0, ...(row.failed !== null && { failed: row.failed }) }
  },

  /** Users that have sessions up to `until`, in order of their ids. */
  async usersWithSessions(until: Snowflake, after: Snowflake, limit: number): Promise<Snowflake[]> {
    const rows = await sql<{ user_id: string }[]>`
      SELECT user_id::text FROM (
        SELECT DISTINCT user_id FROM sessions WHERE id <= ${until} AND user_id > ${after} ORDER BY user_id LIMIT ${limit}) AS users`
    return rows.map(({ user_id }) => user_id)
  },
})
