import { randomBytes } from "node:crypto"
import postgres from "postgres"
import { inject } from "vitest"
import { shardCount } from "../../src/domain/core/snowflake.ts"
import { openPool, type Sql } from "../../src/storage/core/database.ts"

export interface TestDatabase {
  readonly name: string
  readonly url: string
  readonly sql: Sql
  drop(): Promise<void>
}

let admin: postgres.Sql | undefined

/** The connection on which this test process makes and drops its databases. */
export const administrator = (): postgres.Sql =>
  (admin ??= postgres(inject("postgres"), { max: 1, idle_timeout: 5, onnotice: () => {} }))

/** As many shards as there are in earnest, for what counts on them; the template has fewer. */
export const addEveryShard = (sql: Sql): Promise<unknown> =>
  sql`INSERT INTO shards (shard) SELECT generate_series(0, ${shardCount - 1}::int) ON CONFLICT DO NOTHING`.execute()

/**
 * A database of its own: a clone of the migrated template. Its files are copied: to write them to the log as well, page by
 * page, costs twice the processor time, and as much again when the database is dropped.
 */
export async function cloneDatabase(): Promise<TestDatabase> {
  const name = `test_${randomBytes(6).toString("hex")}`
  await administrator().unsafe(`CREATE DATABASE ${name} TEMPLATE ${inject("template")} STRATEGY FILE_COPY`)
  const url = new URL(inject("postgres"))
  url.pathname = `/${name}`
  const sql = openPool({
    url: url.href,
    connections: 2,
    statementTimeoutMs: 20_000,
    connectTimeoutMs: 5_000,
    name: "test",
  })
  return {
    name,
    url: url.href,
    sql,
    async drop() {
      await sql.end({ timeout: 1 })
      await administrator().unsafe(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
    },
  }
}
