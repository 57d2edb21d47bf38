/**
 * Writes a backup into an empty database and to where files are kept. It keeps:
 *   BAK3  Every byte of the backup was compared with its digest before the first one is written, and the
 *       database gets all of it or nothing.
 *   BAK4  What runs on a restored database takes it for another one than Redis, old processes and old
 *       clients know, and gives no number that was given before, see ADR 20 and 30.
 */
import { createGunzip } from "node:zlib"
import { Readable, Writable } from "node:stream"
import { pipeline } from "node:stream/promises"
import { open } from "node:fs/promises"
import {
  BackupProblem,
  Head,
  headName,
  pieceBytes,
  readBackup,
  type BackupEntry,
  type Contents,
} from "./core/backup-archive.ts"
import { columnsOf, leftOutTables, tablesOf } from "./backup.ts"
import { isBlobKey, type Blobs } from "./core/blobs.ts"
import { checkServer } from "./core/database-check.ts"
import { inTransaction, openPool, type Statements } from "./core/database.ts"
import { migrate, migrateTo } from "./core/migrate.ts"

/** Numbers that may have been given since the mark, and are known outside of the database: to Redis, to people. */
const identityJump = 1_000_000
const maxKeyBytes = 4_096

export interface RestoreOptions {
  readonly path: string
  readonly url: string
  readonly connectTimeoutMs: number
  /** Absent: the files in it are left out. */
  readonly files?: Blobs | undefined
  /** Is given the key, before the database has what it opens; throws where another one is in use. */
  readonly keepKey: (key: string) => Promise<void>
  readonly note: (progress: string) => void
}

/** The database is not empty. */
export class NotEmpty extends Error {}

export interface Restored {
  readonly contents: Contents
  readonly head: Head
}

/** Reads all of a backup and compares it with its digests. @returns what is in it, and its secret key */
export async function checkBackup(path: string): Promise<Restored & { readonly key: string | undefined }> {
  const file = await open(path, "r")
  try {
    const found: { head?: Head; key?: string } = {}
    const contents = await readBackup(file, async entry => {
      if (entry.name === headName) found.head = await headIn(entry)
      else if (!found.head) throw new BackupProblem("it does not begin like one")
      else if (entry.name === "secret.key") found.key = (await textIn(entry, maxKeyBytes)).trim()
    })
    if (!found.head) throw new BackupProblem("it does not say what it is")
    return { contents, head: found.head, key: found.key }
  } finally {
    await file.close()
  }
}

export async function restore(options: RestoreOptions): Promise<Restored> {
  const { path, url, connectTimeoutMs, keepKey, note } = options
  note("comparing every byte with its digest")
  const { contents, head, key } = await checkBackup(path)
  const sql = openPool({
    url,
    connections: 1,
    connectTimeoutMs,
    statementTimeoutMs: 0,
    settings: { idle_in_transaction_session_timeout: "0", lock_timeout: "0", maintenance_work_mem: "256MB" },
    name: "starling operator",
  })
  const file = await open(path, "r")
  try {
    await checkServer(sql)
    await inTransaction(sql, async transaction => {
      await requireEmpty(transaction)
      await migrateTo(transaction, head.migrations)
      const tables = new Map(head.tables.map(table => [table.name, table.columns]))
      await requireTables(transaction, tables)
      await addPartitions(transaction, head.partitions)
      const resume = await suspend(transaction, [...tables.keys()])
      if (key !== undefined) await keepKey(key)
      note("writing the database and the files")
      const into = new Copies(transaction, tables, contents)
      // Read once more, so that nothing is taken that has changed meanwhile.
      const again = await readBackup(file, async entry => {
        const table = /^database\/([a-z0-9_]+)\/\d{6}\.gz$/.exec(entry.name)?.[1]
        if (table !== undefined) return into.add(table, entry)
        await into.finish()
        if (options.files && entry.name.startsWith("files/")) await keepFile(options.files, entry)
      }).catch(async (error: unknown) => {
        await into.abandon()
        throw error
      })
      await into.finish()
      if (JSON.stringify(again) !== JSON.stringify(contents))
        throw new BackupProblem("it has changed while it was read")
      note("sorting the indexes")
      await resume()
      await endFormerLife(transaction, contents)
    })
    // What this version has on top.
    await migrate(url)
    await sql`ANALYZE`
    return { contents, head }
  } finally {
    await file.close()
    await sql.end({ timeout: 1 })
  }
}

async function textIn(entry: BackupEntry, maxBytes: number): Promise<string> {
  if (entry.size > maxBytes) throw new BackupProblem(`${entry.name} is too long`)
  const pieces: Buffer[] = []
  for await (const piece of entry.pieces()) pieces.push(Buffer.from(piece))
  return Buffer.concat(pieces).toString()
}

async function headIn(entry: BackupEntry): Promise<Head> {
  const text = await textIn(entry, 16 * pieceBytes)
  try {
    return Head.parse(JSON.parse(text))
  } catch {
    throw new BackupProblem("it was made by a version that this one does not understand")
  }
}

async function requireEmpty(sql: Statements): Promise<void> {
  const found = await sql<{ name: string }[]>`
    SELECT c.relname AS name FROM pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
    ORDER BY c.relname LIMIT 3`
  if (found.length > 0)
    throw new NotEmpty(`the database is not empty: it has ${found.map(({ name }) => name).join(", ")}`)
}

/** What the backup says of tables has to be what the migrations have made. */
async function requireTables(sql: Statements, tables: ReadonlyMap<string, readonly string[]>): Promise<void> {
  const made = await tablesOf(sql)
  const wanted = (columns: readonly string[]) => columns.toSorted().join()
  const strange = made.find(({ name, columns }) => wanted(tables.get(name) ?? []) !== wanted(columns))
  if (strange || made.length !== tables.size)
    throw new BackupProblem(`its tables are not those of its migrations${strange ? ` (${strange.name})` : ""}`)
}

async function addPartitions(sql: Statements, partitions: Head["partitions"]): Promise<void> {
  for (const { name, parent, bound } of partitions)
    await sql.unsafe(`CREATE TABLE IF NOT EXISTS "${name}" PARTITION OF "${parent}" ${bound}`)
}

/**
 * What rows would set off, and indexes that are made in a fraction of the time once all rows are
 * there. Rows that the migrations have put there make way. @returns brings all of it back
 */
async function suspend(sql: Statements, tables: readonly string[]): Promise<() => Promise<void>> {
  const indexes = await sql<{ name: string; definition: string }[]>`
    SELECT indexname AS name, indexdef AS definition FROM pg_indexes
    WHERE schemaname = current_schema() AND indexdef LIKE '% USING gin %' AND tablename = ANY(${[...tables]}::text[])`
  for (const { name } of indexes) await sql.unsafe(`DROP INDEX "${name}"`)
  for (const table of tables) await sql.unsafe(`ALTER TABLE "${table}" DISABLE TRIGGER USER`)
  for (const table of tables.toReversed()) await sql.unsafe(`DELETE FROM "${table}"`)
  return async () => {
    for (const table of tables) await sql.unsafe(`ALTER TABLE "${table}" ENABLE TRIGGER USER`)
    for (const { definition } of indexes) await sql.unsafe(definition)
  }
}

/** BAK4: no process of before lives, and no number is given twice. */
async function endFormerLife(sql: Statements, { identities }: Contents): Promise<void> {
  await sql`UPDATE lanes SET generation = generation + 1 WHERE incarnation IN (SELECT id FROM incarnations WHERE died_at IS NULL)`
  await sql`UPDATE incarnations SET died_at = now() WHERE died_at IS NULL`
  for (const { table, column, last } of identities)
    await sql`
      SELECT setval(pg_get_serial_sequence(${`"${table}"`}, ${column})::regclass, ${last}::bigint + ${identityJump})`
}

/** COPY, one table after another; what an entry holds goes on in the next. */
class Copies {
  readonly #sql: Statements
  readonly #tables: ReadonlyMap<string, readonly string[]>
  readonly #rows: ReadonlyMap<string, number>
  #current: { readonly table: string; readonly sink: Writable } | undefined

  constructor(sql: Statements, tables: ReadonlyMap<string, readonly string[]>, contents: Contents) {
    this.#sql = sql
    this.#tables = tables
    this.#rows = new Map(contents.tables.map(({ name, rows }) => [name, rows]))
  }

  async add(table: string, entry: BackupEntry): Promise<void> {
    if (this.#current?.table !== table) {
      await this.finish()
      const columns = this.#tables.get(table)
      if (!columns || leftOutTables.has(table))
        throw new BackupProblem(`it has rows of ${table}, which it does not name`)
      const copy = this.#sql.unsafe(`COPY "${table}" (${columnsOf(columns)}) FROM STDIN`)
      this.#current = { table, sink: await copy.writable() }
      // Told when it is written to.
      this.#current.sink.on("error", () => {})
    }
    const { sink } = this.#current
    const into = new Writable({ write: (piece: Buffer, _, done) => void sink.write(piece, done) })
    await pipeline(Readable.from(copied(entry)), createGunzip(), into)
  }

  /**
   * postgres.js 3.4.9 tells nobody that PostgreSQL refuses a COPY at its end. The statement after it
   * does: it is refused as well, or finds the rows.
   */
  async finish(): Promise<void> {
    if (!this.#current) return
    const { table, sink } = this.#current
    this.#current = undefined
    sink.end()
    // Until it is sent that this was the end.
    await new Promise(resolve => setImmediate(resolve))
    const counted = await this.#sql.unsafe(`SELECT count(*)::int8 AS rows FROM "${table}"`).catch((cause: unknown) => {
      throw new Error(`PostgreSQL does not take the rows of ${table}`, { cause })
    })
    if (Number(counted[0]?.["rows"]) !== this.#rows.get(table))
      throw new Error(`${table} has ${String(counted[0]?.["rows"])} rows, not ${this.#rows.get(table)}`)
  }

  /** So that the connection takes a ROLLBACK. */
  async abandon(): Promise<void> {
    this.#current?.sink.destroy(new Error("given up"))
    this.#current = undefined
    await new Promise(resolve => setImmediate(resolve))
  }
}

/** Of pieces that are as they are until the next is asked for, and are given on. */
async function* copied(entry: BackupEntry): AsyncGenerator<Buffer, void> {
  for await (const piece of entry.pieces()) yield Buffer.from(piece)
}

async function keepFile(blobs: Blobs, entry: BackupEntry): Promise<void> {
  const key = entry.name.slice("files/".length)
  if (!isBlobKey(key) || key.endsWith("/")) throw new BackupProblem(`${entry.name} is no file of the program's`)
  await blobs.putPieces(key, copied(entry))
}
