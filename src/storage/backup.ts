/**
 * Writes everything that PostgreSQL keeps, and the files to which that leads, into one file, while the service runs. It keeps:
 *   BAK1  All tables are read in one snapshot: everything that was committed before the mark is in it,
 *       and nothing of what came later is half in it.
 * What it holds in memory is bounded, whatever the size of a table: rows pass through pieces of some megabytes.
 */
import { promisify } from "node:util"
import { createGunzip, gzip } from "node:zlib"
import { Readable } from "node:stream"
import { createInterface } from "node:readline"
import { setTimeout as sleep } from "node:timers/promises"
import { tarPieces, type TarEntry } from "../std/tar.ts"
import {
  archiveFormat,
  headName,
  pieceBytes,
  type BackupWriter,
  type Contents,
  type Head,
} from "./core/backup-archive.ts"
import { isBlobKey, type Blobs } from "./core/blobs.ts"
import { inTransaction, openPool, type Statements } from "./core/database.ts"
import { holdFiles } from "./core/file-hold.ts"
import { ranMigrations } from "./core/migrate.ts"
import { thumbnailSides } from "../domain/messages/attachments.ts"

/** Rows of a table that are compressed together. */
const tablePieceBytes = 4 * 1024 * 1024
/** Files that are named in the manifest because the store has lost them. */
const maxNamedMissing = 1_000
const fileAttempts = 5
const fileRetryMs = 2_000

/** What belongs to one run of the program, or is made by it. */
export const leftOutTables: ReadonlySet<string> = new Set(["migrations", "redis_origin"])

export interface BackupOptions {
  readonly url: string
  readonly connectTimeoutMs: number
  readonly to: BackupWriter
  /** Absent: the database alone. */
  readonly files?: Blobs | undefined
  readonly secretKey?: string | undefined
  /** The part of the time that it works: in the rest it rests, so that others come first. */
  readonly share: number
  readonly note: (progress: string) => void
}

/** Another backup runs. */
export class BackupRuns extends Error {}

interface Table {
  readonly name: string
  readonly isPartitioned: boolean
  readonly columns: readonly string[]
  /** Tables that its foreign keys lead to. */
  readonly needs: readonly string[]
}

const asOne = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
const compress = promisify(gzip)
const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`
export const columnsOf = (columns: readonly string[]): string => columns.map(quoted).join(", ")
const numbered = (number: number) => String(number).padStart(6, "0")

export async function backUp(options: BackupOptions): Promise<Contents> {
  const { url, connectTimeoutMs, to, files, secretKey } = options
  const open = (name: string) =>
    openPool({
      url,
      connections: 1,
      connectTimeoutMs,
      statementTimeoutMs: 0,
      settings: { idle_in_transaction_session_timeout: "0", lock_timeout: "0" },
      name,
    })
  const [holding, reading] = [open("starling operator"), open("starling operator")]
  try {
    return await inTransaction(holding, async hold => {
      if (!(await holdFiles(hold))) throw new BackupRuns("another backup runs")
      const { lists, ...read } = await inTransaction(reading, snapshot => readDatabase(snapshot, options), asOne)
      if (secretKey !== undefined) await to.add("secret.key", Buffer.from(secretKey))
      const copied = files ? await copyFiles(files, lists, options) : { count: 0, bytes: 0, missing: [] }
      const contents = { ...read, files: copied, hasKey: secretKey !== undefined }
      await to.finish(contents)
      return contents
    })
  } finally {
    await Promise.all([holding.end({ timeout: 1 }), reading.end({ timeout: 1 })])
  }
}

async function readDatabase(snapshot: Statements, options: BackupOptions) {
  const { to, files, note } = options
  // The transaction began before its first statement made the snapshot.
  const [begun] = await snapshot<[{ at: Date }]>`SELECT now() AS at`
  const tables = await tablesOf(snapshot)
  const head: Head = {
    format: archiveFormat,
    migrations: await ranMigrations(snapshot),
    tables: tables.map(({ name, columns }) => ({ name, columns: [...columns] })),
    partitions: [
      ...(await snapshot<{ name: string; parent: string; bound: string }[]>`
        SELECT c.relname AS name, p.relname AS parent, pg_get_expr(c.relpartbound, c.oid) AS bound
        FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid JOIN pg_class p ON p.oid = inhparent
        WHERE c.relispartition AND c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace ORDER BY c.relname`),
    ],
    hasFiles: files !== undefined,
  }
  await to.add(headName, Buffer.from(`${JSON.stringify(head, null, 1)}\n`))
  const counted: Contents["tables"] = []
  let messageId: string | null = null
  for (const table of tables) {
    const idAt = table.name === "messages" ? table.columns.indexOf("id") : undefined
    const source = table.isPartitioned
      ? `(SELECT ${columnsOf(table.columns)} FROM ${quoted(table.name)})`
      : `${quoted(table.name)} (${columnsOf(table.columns)})`
    const { rows, bytes, highest } = await copyOut(snapshot, source, `database/${table.name}`, idAt, options)
    counted.push({ name: table.name, rows, bytes })
    messageId = highest ?? messageId
    note(`${table.name}: ${rows} rows`)
  }
  const listing = files ? await copyOut(snapshot, `(${fileKeys})`, "files.list", undefined, options) : undefined
  const contents = {
    mark: { at: begun.at.toISOString(), message_id: messageId },
    tables: counted,
    identities: await identitiesOf(snapshot),
  }
  return { ...contents, lists: listing?.entries ?? [] }
}

/** So that a table comes after those that its rows refer to. */
export async function tablesOf(sql: Statements): Promise<Table[]> {
  const rows = await sql<{ name: string; partitioned: boolean; columns: string[]; needs: string[] }[]>`
    SELECT c.relname::text AS name, c.relkind = 'p' AS partitioned,
      ARRAY(SELECT a.attname::text FROM pg_attribute a
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum) AS columns,
      ARRAY(SELECT DISTINCT r.relname::text FROM pg_constraint k JOIN pg_class r ON r.oid = k.confrelid
            WHERE k.conrelid = c.oid AND k.contype = 'f' AND k.confrelid <> c.oid) AS needs
    FROM pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
    ORDER BY c.relname`
  const ordered = new Map<string, Table>()
  const waiting = new Map(rows.map(({ partitioned, ...row }) => [row.name, { ...row, isPartitioned: partitioned }]))
  while (waiting.size > 0) {
    const free = [...waiting.values()].filter(({ needs }) => needs.every(name => ordered.has(name)))
    if (free.length === 0) throw new Error(`these tables refer to one another: ${[...waiting.keys()].join(", ")}`)
    for (const table of free) {
      ordered.set(table.name, table)
      waiting.delete(table.name)
    }
  }
  return [...ordered.values()].filter(({ name }) => !leftOutTables.has(name))
}

/** What was given after the snapshot counts as well: such a value may be known outside of the database. */
async function identitiesOf(sql: Statements): Promise<Contents["identities"]> {
  return [
    ...(await sql<Contents["identities"]>`
      SELECT c.relname AS "table", a.attname AS "column",
        coalesce(pg_sequence_last_value(pg_get_serial_sequence(quote_ident(c.relname), a.attname)::regclass), 0)::text AS last
      FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
      WHERE a.attidentity <> '' AND NOT a.attisdropped AND c.relnamespace = current_schema()::regnamespace AND NOT c.relispartition
      ORDER BY 1, 2`),
  ]
}

/** Names of files, one a line, of everything that leads to one. */
const fileKeys = `
  SELECT 'servers/' || server_id || '/' || file FROM server_icons
  UNION ALL SELECT 'servers/' || server_id || '/' || file FROM emojis
  UNION ALL SELECT 'servers/' || server_id || '/' || file FROM stickers
  UNION ALL SELECT 'users/' || user_id || '/' || file FROM user_avatars
  UNION ALL SELECT 'uploads/' || blob FROM upload_contents
  UNION ALL SELECT 'uploads/' || file FROM uploads WHERE NOT is_shared
  UNION ALL SELECT 'chunks/' || blob FROM upload_chunks
  UNION ALL SELECT 'thumbnails/' || base || '-' || side
    FROM upload_thumbnails, unnest(ARRAY[${thumbnailSides.join(", ")}]) AS side WHERE base IS NOT NULL`

/** Rows in COPY's text form, which every version of PostgreSQL reads. A piece may end within a row. */
async function copyOut(
  sql: Statements,
  source: string,
  name: string,
  idAt: number | undefined,
  { to, share }: BackupOptions,
) {
  const stream = await sql.unsafe(`COPY ${source} TO STDOUT`).readable()
  const pace = pacing(share)
  const entries: TarEntry[] = []
  let [rows, bytes, highest, rest] = [0, 0, undefined as string | undefined, ""]
  let waiting: Buffer[] = []
  let waitingBytes = 0
  const write = async () => {
    if (waitingBytes === 0) return
    entries.push(
      await to.add(`${name}/${numbered(entries.length + 1)}.gz`, await compress(Buffer.concat(waiting), { level: 1 })),
    )
    waiting = []
    waitingBytes = 0
    await pace()
  }
  for await (const piece of stream as AsyncIterable<Buffer>) {
    bytes += piece.length
    waitingBytes += piece.length
    waiting.push(piece)
    if (idAt === undefined) for (let at = piece.indexOf(10); at >= 0; at = piece.indexOf(10, at + 1)) rows++
    else {
      const lines = (rest + piece.toString("latin1")).split("\n")
      rest = lines.pop()!
      for (const line of lines) highest = higher(highest, fieldOf(line, idAt))
      rows += lines.length
    }
    if (waitingBytes >= tablePieceBytes) await write()
  }
  // postgres.js 3.4.9 pauses its socket when the stream is full, and leaves it so when that was the end of it: the next
  // statement would wait for ever. This can go when it resumes the socket where the COPY is done.
  stream._read(0)
  await write()
  return { rows, bytes, highest, entries }
}

function fieldOf(line: string, number: number): string {
  let from = 0
  for (let i = 0; i < number; i++) from = line.indexOf("\t", from) + 1
  const to = line.indexOf("\t", from)
  return to < 0 ? line.slice(from) : line.slice(from, to)
}

/** Of two ids without a sign. */
const higher = (a: string | undefined, b: string): string =>
  a === undefined || b.length > a.length || (b.length === a.length && b > a) ? b : a

/** After each piece of work as much rest as the share leaves. */
function pacing(share: number): () => Promise<void> {
  let since = performance.now()
  return async () => {
    const restMs = (performance.now() - since) * (1 / share - 1)
    if (restMs >= 1) await sleep(Math.min(restMs, 10_000))
    since = performance.now()
  }
}

async function copyFiles(
  blobs: Blobs,
  lists: readonly TarEntry[],
  { to, share, note }: BackupOptions,
): Promise<Contents["files"]> {
  const pace = pacing(share)
  const copied: Contents["files"] = { count: 0, bytes: 0, missing: [] }
  let notedAt = performance.now()
  for (const list of lists)
    for await (const key of linesOf(to, list)) {
      if (!isBlobKey(key)) continue
      const size = await withRetries(() => copyFile(blobs, key, to, pace))
      if (size !== undefined) {
        copied.count++
        copied.bytes += size
      } else if (!key.startsWith("thumbnails/") && copied.missing.length < maxNamedMissing) copied.missing.push(key)
      if (performance.now() < notedAt + 5_000) continue
      notedAt = performance.now()
      note(`files: ${copied.count} (${(copied.bytes / 1e6).toFixed(1)} MB)`)
    }
  return copied
}

/** @returns its size; undefined: the store has no such file */
async function copyFile(
  blobs: Blobs,
  key: string,
  to: BackupWriter,
  pace: () => Promise<void>,
): Promise<number | undefined> {
  const file = await blobs.open(key)
  if (!file) return undefined
  try {
    const pieces = async function* () {
      for (let at = 0; at < file.size;) {
        const piece = await file.read(at, Math.min(pieceBytes, file.size - at))
        if (piece.length === 0) throw new Error(`the file ${key} is shorter than it was`)
        at += piece.length
        yield piece
        await pace()
      }
    }
    await to.addPieces(`files/${key}`, file.size, pieces())
    return file.size
  } finally {
    await file.close()
  }
}

/** A store may be away for a moment. */
async function withRetries<T>(attempt: () => Promise<T>): Promise<T> {
  for (let attempts = 1; ; attempts++)
    try {
      return await attempt()
    } catch (error) {
      if (attempts === fileAttempts) throw error
      await sleep(fileRetryMs)
    }
}

async function* linesOf(to: BackupWriter, entry: TarEntry): AsyncGenerator<string, void> {
  const pieces: Buffer[] = []
  for await (const piece of tarPieces(to.file, entry, pieceBytes)) pieces.push(Buffer.from(piece))
  yield* createInterface({ input: Readable.from(pieces).pipe(createGunzip()), crlfDelay: Infinity })
}
