import { createHash } from "node:crypto"
import { readdir, readFile } from "node:fs/promises"
import { setTimeout } from "node:timers/promises"
import type { PersonalData } from "../../domain/core/personal-data.ts"
import { checkLocks, checkServer } from "./database-check.ts"
import { isLockTimeout, isTakenBack, openPool, type Sql, type Statements } from "./database.ts"

export const personalData: PersonalData = {
  others: {
    migrations: { why: "What the database looks like" },
  },
}

/** One number names the lock under which hosts migrate one after another. */
const migrationLock = 7_301_024
/**
 * A statement that waits for a table's lock blocks all statements that queue up after it: after
 * this long it gives way. Longer than `deadlock_timeout`, after which an autovacuum of the table
 * makes way. In milliseconds.
 */
const lockWaitMs = 3_000
const lockPauseMs = 2_000
const lockAttempts = 60
/**
 * How a file begins that only adds: a program that does not know it goes on beside those that do.
 * Any other file ends the programs of before: they refuse to start, so what they need is taken away
 * only after none of them runs.
 */
const expansion = /^-- Expands\b/

interface Migration {
  readonly name: string
  readonly text: string
  readonly digest: string
}

interface Ran {
  name: string
  digest: string
  expands: boolean
}

const own = new URL("../migrations/", import.meta.url)

/**
 * Brings the database up to this version: runs every file of `migrations/` that has not run yet, in
 * order of name, in one transaction. Forward only. A file that has run must not change: its digest
 * is kept and compared. A database that could not keep what it is given is refused. Where others
 * hold a table for long it is tried again; nothing of an attempt stays. @returns the names of the
 * files that ran now
 */
export async function migrate(url: string, folder = own, waits = { lockWaitMs, lockPauseMs }): Promise<string[]> {
  const options = { url, connections: 1, connectTimeoutMs: 5_000, evenReadOnly: true, name: "starling migrate" }
  const sql = openPool({ ...options, statementTimeoutMs: 600_000 })
  const other = openPool({ ...options, statementTimeoutMs: 5_000 })
  try {
    const server = await checkServer(sql)
    const run = async (transaction: Statements) => {
      await transaction`SELECT pg_advisory_xact_lock(${migrationLock})`
      await transaction`SELECT set_config('lock_timeout', ${String(waits.lockWaitMs)}, true)`
      const files = await migrationFiles(folder)
      const ran = await readRan(transaction)
      const missing = missingOf(files, ran)
      if (missing.length > 0 && !server.mayCreate)
        throw new Error(
          `the user ${server.user} may not make tables in the schema ${server.schema}; GRANT CREATE ON SCHEMA ${server.schema} TO ${server.user}`,
        )
      if (missing.length > 0 && !server.mayHaveTrigrams)
        throw new Error(
          `the user ${server.user} may not make the extension pg_trgm; GRANT CREATE ON DATABASE ${server.database} TO ${server.user}, or CREATE EXTENSION pg_trgm as another`,
        )
      if (missing.length > 0) await prepareTable(transaction)
      for (const { name, text, digest } of missing) {
        await transaction.unsafe(text).catch((cause: Error) => {
          throw new Error(
            `migration ${name} is refused by what says it is PostgreSQL ${server.version}: ${cause.message}`,
            { cause },
          )
        })
        await transaction`INSERT INTO migrations (name, digest, expands) VALUES (${name}, ${digest}, ${expansion.test(text)})`
      }
      await requireTables(transaction, files, server.user)
      return missing.map(({ name }) => name)
    }
    const fresh = await oncePossible(() => sql.begin(run), waits.lockPauseMs)
    await sql.begin(async transaction => {
      await transaction`SELECT pg_advisory_xact_lock(${migrationLock})`
      await checkLocks(transaction, other, migrationLock)
    })
    return fresh
  } finally {
    await Promise.all([sql.end({ timeout: 1 }), other.end({ timeout: 1 })])
  }
}

async function oncePossible<T>(attempt: () => Promise<T>, pauseMs: number): Promise<T> {
  for (let attempts = 1; ; attempts++)
    try {
      return await attempt()
    } catch (error) {
      const cause = error instanceof Error ? (error.cause ?? error) : error
      // A server of before may hold tables in another order: PostgreSQL takes one of both back.
      if (attempts === lockAttempts || !(isLockTimeout(cause) || isTakenBack(cause))) throw error
      await setTimeout(pauseMs)
    }
}

/** What has run, in order of name. */
export const ranMigrations = async (sql: Statements): Promise<{ name: string; digest: string }[]> =>
  (await readRan(sql)).map(({ name, digest }) => ({ name, digest })).toSorted((a, b) => (a.name < b.name ? -1 : 1))

/**
 * Makes the tables of an empty database as they were when exactly these had run, in the caller's
 * transaction; hosts that start meanwhile wait for it. Throws where this version has not all of them.
 */
export async function migrateTo(
  transaction: Statements,
  wanted: readonly { name: string; digest: string }[],
): Promise<void> {
  await transaction`SELECT pg_advisory_xact_lock(${migrationLock})`
  const files = new Map((await migrationFiles(own)).map(file => [file.name, file]))
  for (const { name, digest } of wanted)
    if (files.get(name)?.digest !== digest)
      throw new Error(
        `it has the migration ${name}, which this version does not have: use the version that made it, or a later one`,
      )
  await prepareTable(transaction)
  for (const { name, digest } of wanted) {
    const { text } = files.get(name)!
    await transaction.unsafe(text)
    await transaction`INSERT INTO migrations (name, digest, expands) VALUES (${name}, ${digest}, ${expansion.test(text)})`
  }
}

export const migrationsStorage = (sql: Sql) => ({
  /**
   * Throws unless the database is at this version, or at a later one that is compatible with it. A
   * worker does not migrate.
   */
  async require(): Promise<void> {
    const [missing] = missingOf(await migrationFiles(own), await readRan(sql))
    if (missing) throw new Error(`the database is not migrated: ${missing.name} has not run`)
  },
})

/** Files that have not run. Throws when what has run cannot be what this version expects. */
function missingOf(files: readonly Migration[], ran: readonly Ran[]): Migration[] {
  const digests = new Map(ran.map(({ name, digest }) => [name, digest]))
  for (const { name, digest } of files)
    if (digests.has(name) && digests.get(name) !== digest)
      throw new Error(`migration ${name} has changed since it ran; migrations only go forward, add a new file`)
  const [baseline] = files
  if (ran.length > 0 && !digests.has(baseline!.name))
    throw new Error(
      `the database was made by a version from before ${baseline!.name}, which cannot be upgraded; begin with an empty database`,
    )
  const names = new Set(files.map(({ name }) => name))
  const strange = ran.find(({ name, expands }) => !names.has(name) && !expands)
  if (strange)
    throw new Error(
      `the database has the migration ${strange.name}, which this version does not know and cannot go on beside; start the version that brought it, or a later one`,
    )
  return files.filter(({ name }) => !digests.has(name))
}

async function readRan(sql: Statements): Promise<Ran[]> {
  const [table] = await sql<{ exists: boolean }[]>`SELECT to_regclass('migrations') IS NOT NULL AS exists`
  return table!.exists ? sql<Ran[]>`SELECT name, digest, expands FROM migrations` : []
}

async function prepareTable(sql: Statements): Promise<void> {
  await sql`
    CREATE TABLE IF NOT EXISTS migrations (name text PRIMARY KEY, digest text NOT NULL, ran_at timestamptz NOT NULL DEFAULT now(),
      expands boolean NOT NULL DEFAULT false)`
}

/**
 * What the table of migrations says may not be so: tables are lost by hand, and by backups of a
 * part.
 */
async function requireTables(sql: Statements, files: readonly Migration[], user: string): Promise<void> {
  const tables = new Set<string>()
  for (const { text } of files)
    for (const [, verb, table] of text.matchAll(/^(CREATE|DROP) TABLE (?:IF (?:NOT )?EXISTS )?(\w+)/gm))
      if (verb === "CREATE") tables.add(table!)
      else tables.delete(table!)
  const rows = await sql<{ name: string; exists: boolean; usable: boolean }[]>`
    SELECT name, id IS NOT NULL AS exists,
      has_table_privilege(id, 'SELECT') AND has_table_privilege(id, 'INSERT') AND has_table_privilege(id, 'UPDATE') AND has_table_privilege(id, 'DELETE') AS usable
    FROM (SELECT name, to_regclass(quote_ident(name)) AS id FROM unnest(${[...tables]}::text[]) AS name) AS tables`
  const lost = rows.filter(({ exists }) => !exists).map(({ name }) => name)
  if (lost.length > 0)
    throw new Error(
      `the migrations have run, but ${namesOf(lost)} missing; restore the database, or begin with an empty one`,
    )
  const closed = rows.filter(({ usable }) => !usable).map(({ name }) => name)
  if (closed.length > 0)
    throw new Error(
      `the user ${user} may not read and write: ${namesOf(closed)} closed to it; GRANT SELECT, INSERT, UPDATE, DELETE`,
    )
}

const namesOf = (tables: readonly string[]) =>
  tables.length === 1 ? `the table ${tables[0]} is` : `the tables ${tables.join(", ")} are`

async function migrationFiles(folder: URL): Promise<Migration[]> {
  const names = (await readdir(folder)).filter(name => name.endsWith(".sql")).toSorted()
  if (names.length === 0) throw new Error(`no migrations in ${folder.pathname}`)
  return Promise.all(
    names.map(async name => {
      const text = await readFile(new URL(name, folder), "utf8")
      return { name, text, digest: createHash("sha256").update(text).digest("hex") }
    }),
  )
}
