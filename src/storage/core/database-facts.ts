import { openPool } from "./database.ts"

/** Tried with nothing older. */
export const oldestPostgres = 14

export interface DatabaseFacts {
  readonly version: string
  readonly major: number
  readonly encoding: string
  readonly isStandby: boolean
  readonly settings: Readonly<Record<"fsync" | "full_page_writes" | "synchronous_commit", string>>
  readonly maxConnections: number
  /** That only superusers may take. */
  readonly reservedConnections: number
  /** Of programs that are not Starling. */
  readonly othersConnections: number
}

const timeoutMs = 4_000

/** What a database says of itself, on a connection as the server has them. It changes nothing. */
export async function databaseFacts<T>(
  url: string,
  look: (facts: DatabaseFacts, secondsThere: () => Promise<number>) => Promise<T>,
): Promise<T> {
  const sql = openPool({
    url,
    connections: 1,
    statementTimeoutMs: timeoutMs,
    connectTimeoutMs: timeoutMs,
    name: "starling doctor",
    evenReadOnly: true,
  })
  try {
    const [facts] = await sql<DatabaseFacts[]>`
      SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int / 10000 AS major,
        current_setting('server_encoding') AS encoding, pg_is_in_recovery() AS "isStandby",
        json_build_object('fsync', current_setting('fsync'), 'full_page_writes', current_setting('full_page_writes'),
          'synchronous_commit', current_setting('synchronous_commit')) AS settings,
        current_setting('max_connections')::int AS "maxConnections",
        current_setting('superuser_reserved_connections')::int
          + coalesce(current_setting('reserved_connections', true)::int, 0) AS "reservedConnections",
        (SELECT count(*)::int FROM pg_stat_activity
          WHERE backend_type = 'client backend' AND application_name !~ '^(starling|web-|job-)') AS "othersConnections"`
    const secondsThere = async () => {
      const [now] = await sql<{ seconds: number }[]>`SELECT extract(epoch FROM clock_timestamp())::float8 AS seconds`
      return now!.seconds
    }
    return await look(facts!, secondsThere)
  } finally {
    await sql.end({ timeout: 1 })
  }
}
