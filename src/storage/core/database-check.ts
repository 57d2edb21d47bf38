/**
 * What a database must be able to do. A version number is only what a server says of itself:
 * poolers and databases that speak PostgreSQL's language give one too. An old number is believed; a
 * new one is not enough, so what the promises rest on is tried out.
 */
import postgres from "postgres"
import { oldestPostgres as oldest } from "./database-facts.ts"
import type { Sql, Statements } from "./database.ts"

interface Server {
  readonly version: string
  readonly user: string
  readonly schema: string
  readonly database: string
  readonly mayCreate: boolean
  /** What searches stand on is there, or can be made. */
  readonly mayHaveTrigrams: boolean
}

/** Throws with what is wrong and what would help. */
export async function checkServer(sql: Sql): Promise<Server> {
  const [server] = await sql<
    {
      version: string
      number: number
      encoding: string
      standby: boolean
      read_only: string
      synchronous_commit: string
      user: string
      schema: string | null
      may_create: boolean | null
      database: string
      has_trigrams: boolean
    }[]
  >`
    SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS number,
      current_setting('server_encoding') AS encoding, pg_is_in_recovery() AS standby,
      current_setting('transaction_read_only') AS read_only, current_setting('synchronous_commit') AS synchronous_commit,
      current_user AS user, current_schema() AS schema, has_schema_privilege(current_schema(), 'CREATE') AS may_create,
      current_database() AS database,
      has_database_privilege(current_database(), 'CREATE') OR EXISTS (SELECT FROM pg_extension WHERE extname = 'pg_trgm') AS has_trigrams`
  const {
    version,
    number,
    encoding,
    standby,
    read_only,
    synchronous_commit,
    user,
    schema,
    may_create,
    database,
    has_trigrams,
  } = server!
  if (Math.floor(number / 10_000) < oldest)
    throw new Error(`this is PostgreSQL ${version}; ${oldest} or later is needed`)
  if (standby) throw new Error("this is a standby, which takes no writes; DATABASE_URL must name the primary")
  if (read_only === "on") throw new Error("it takes no writes: default_transaction_read_only is on")
  if (encoding !== "UTF8")
    throw new Error(
      `the database has the encoding ${encoding}, which cannot hold every text; make one with ENCODING 'UTF8'`,
    )
  if (synchronous_commit !== "on")
    throw new Error(
      `synchronous_commit is ${synchronous_commit} though it was asked to be on: something in between drops the settings of a connection, and what is acknowledged could be lost`,
    )
  if (schema === null) throw new Error(`the user ${user} has no schema to use; look at search_path`)
  return { version, user, schema, database, mayCreate: may_create === true, mayHaveTrigrams: has_trigrams }
}

/**
 * Throws unless locks hold, on which the fence against a dead worker's writes and the order of
 * migrations rest.
 */
export async function checkLocks(holder: Statements, other: Sql, advisoryLock: number): Promise<void> {
  await holder`WITH held AS MATERIALIZED (SELECT shard FROM shards WHERE shard = 0 FOR SHARE) SELECT count(*) FROM held`
  const passed = await other`SELECT shard FROM shards WHERE shard = 0 FOR UPDATE NOWAIT`.then(
    () => true,
    (error: unknown) => {
      if (error instanceof postgres.PostgresError && error.code === "55P03") return false
      throw error
    },
  )
  if (passed)
    throw new Error(
      "it does not keep row locks: FOR UPDATE went past a FOR SHARE, and writes of a worker that was declared dead would, too",
    )
  const [lock] = await other<{ taken: boolean }[]>`SELECT pg_try_advisory_xact_lock(${advisoryLock}) AS taken`
  if (lock!.taken) throw new Error("it does not keep advisory locks, under which hosts migrate one after another")
}
