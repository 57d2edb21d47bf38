import type { Sql } from "./database.ts"

/** How many connections PostgreSQL takes of the user that asks. */
export interface ConnectionCapacity {
  readonly maxConnections: number
  /** Of them, kept for superusers and others with the privilege. */
  readonly reserved: number
  /** The limits of the user and of the database, the lower one; null: none. */
  readonly limit: number | null
  /** Open now, by others than `host`'s processes. */
  readonly inUse: number
}

export const connectionCapacityStorage = (sql: Sql) => ({
  /** `host`: processes of this host have it in the names of their connections. */
  async capacity(host: string): Promise<ConnectionCapacity> {
    const [row] = await sql<[{ max: number; reserved: number; limit: number | null; in_use: number }]>`
      SELECT current_setting('max_connections')::int AS max,
        current_setting('superuser_reserved_connections')::int + coalesce(current_setting('reserved_connections', true)::int, 0) AS reserved,
        (SELECT min(n) FROM (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user
                             UNION ALL SELECT datconnlimit FROM pg_database WHERE datname = current_database()) AS limits (n)
         WHERE n >= 0) AS limit,
        (SELECT count(*) FROM pg_stat_activity
         WHERE datid IS NOT NULL AND pid <> pg_backend_pid() AND strpos(application_name, ${host}) = 0)::int AS in_use`
    return { maxConnections: row.max, reserved: row.reserved, limit: row.limit, inUse: row.in_use }
  },
})
