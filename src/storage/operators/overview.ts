import type { Sql } from "../core/database.ts"

/** Connections older than this are listed. */
const oldSeconds = 86_400
const maxOld = 100

/** More users than these are estimated. */
const maxCounted = 500_000

/** What PostgreSQL says of itself, and what it has. */
export const operatorOverviewStorage = (sql: Sql) => ({
  async connections(): Promise<{ active: number; idle: number; total: number; most: number; version: string }> {
    const [row] = await sql<{ active: number; idle: number; total: number; most: number; version: string }[]>`
      SELECT count(*) FILTER (WHERE state IS DISTINCT FROM 'idle')::int AS active, count(*) FILTER (WHERE state = 'idle')::int AS idle,
             count(*)::int AS total, current_setting('max_connections')::int AS most,
             current_setting('server_version') AS version
      FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname = current_database()`
    return row!
  },

  async oldConnections(): Promise<{ connection_id: string; age_seconds: number; thread_id: string }[]> {
    return sql<{ connection_id: string; age_seconds: number; thread_id: string }[]>`
      SELECT coalesce(nullif(application_name, ''), pid::text) AS connection_id, pid::text AS thread_id,
             extract(epoch FROM now() - backend_start)::int AS age_seconds
      FROM pg_stat_activity
      WHERE backend_type = 'client backend' AND datname = current_database()
        AND backend_start < now() - make_interval(secs => ${oldSeconds})
      ORDER BY backend_start LIMIT ${maxOld}`
  },

  /** @param sinceS Unix seconds: who has signed in from then on is active */
  async userCounts(
    sinceS: number,
  ): Promise<{ active_users: number; total_users: number; scheduled_deletions: number }> {
    const [row] = await sql<{ active_users: number; total_users: number; scheduled_deletions: number }[]>`
      SELECT (SELECT count(*) FROM users WHERE last_login >= ${sinceS})::int AS active_users,
             (CASE WHEN (SELECT reltuples FROM pg_class WHERE oid = 'users'::regclass) > ${maxCounted}
               THEN (SELECT reltuples FROM pg_class WHERE oid = 'users'::regclass)
               ELSE (SELECT count(*) FROM users WHERE NOT bot AND deletion_status <> 'purged') END)::int AS total_users,
             (SELECT count(*) FROM users WHERE deletion_status = 'frozen')::int AS scheduled_deletions`
    return row!
  },

  /** Of the database, in bytes. */
  async size(): Promise<number> {
    const [row] = await sql<{ bytes: number | string }[]>`SELECT pg_database_size(current_database()) AS bytes`
    return Number(row!.bytes)
  },
})
