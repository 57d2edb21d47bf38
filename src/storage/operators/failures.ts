import type { Sql } from "../core/database.ts"

/** Under what failed sign-ins are counted. */
export const failureKey = {
  ofAddress: (limited: string) => `a ${limited}`,
  ofName: (name: string) => `n ${name.toLowerCase()}`,
  /** Passwords and codes that somebody tries in a session. */
  inSession: (operator: string) => `p ${operator}`,
}

interface AttemptLimits {
  readonly allowed: number
  readonly windowSeconds: number
  readonly lockSeconds: number
}

/** What is counted of those who do not manage to sign in. */
export const operatorFailuresStorage = (sql: Sql) => ({
  /** Seconds for which sign-ins under one of these keys are refused; 0: they are not. */
  async lockedFor(keys: readonly string[]): Promise<number> {
    const [row] = await sql<{ seconds: number }[]>`
      SELECT coalesce(max(locked_until - extract(epoch FROM now())::bigint), 0)::int AS seconds FROM operator_failures
      WHERE key = ANY(${keys as string[]}) AND locked_until > extract(epoch FROM now())::bigint`
    return row!.seconds
  },

  /**
   * Counts a failure under each key, and locks those that have had too many within the window.
   * Failures under a key that is locked already count no more. @returns false where one was locked
   */
  async countFailure(
    keys: readonly string[],
    { allowed, windowSeconds, lockSeconds }: AttemptLimits,
  ): Promise<boolean> {
    const counted = await sql`
      WITH moment AS (SELECT extract(epoch FROM now())::bigint AS now),
           over AS (
             DELETE FROM operator_failures USING moment WHERE key IN (
               SELECT key FROM operator_failures WHERE since + ${windowSeconds}::bigint < now AND locked_until < now
                 AND key <> ALL(${keys as string[]}) LIMIT 100))
      INSERT INTO operator_failures AS f (key, failures, since, locked_until)
      SELECT key, 1, now, CASE WHEN ${allowed}::int <= 1 THEN now + ${lockSeconds}::bigint ELSE 0 END
      FROM unnest(${keys as string[]}::text[]) AS key, moment ORDER BY key
      ON CONFLICT (key) DO UPDATE SET (failures, since, locked_until) = (
        SELECT next.failures, CASE WHEN next.failures = 1 THEN EXCLUDED.since ELSE f.since END,
               CASE WHEN next.failures >= ${allowed}::int THEN EXCLUDED.since + ${lockSeconds}::bigint ELSE 0 END
        FROM (SELECT CASE WHEN f.locked_until > 0 OR f.since + ${windowSeconds}::bigint <= EXCLUDED.since THEN 1 ELSE f.failures + 1 END AS failures) AS next)
      WHERE f.locked_until <= EXCLUDED.since RETURNING 1`
    return counted.length === keys.length
  },

  /** After a complete sign-in. A lock that has come meanwhile stays. */
  async clearFailures(keys: readonly string[]): Promise<void> {
    await sql`
      DELETE FROM operator_failures WHERE key = ANY(${keys as string[]}) AND locked_until <= extract(epoch FROM now())`
  },
})
