import { createHash } from "node:crypto"
import { readdir, readFile } from "node:fs/promises"
import { openPool } from "./database.ts"

/** One number names the lock under which hosts migrate one after another. */
const migrationLock = 7_301_024

/**
 * Brings the database up to this version: runs every file of `migrations/` that has not run yet, in order of name, each in
 * a transaction of its own. Forward only. A file that has run must not change: its digest is kept and compared.
 * @returns the names of the files that ran now
 */
export async function migrate(url: string, folder = new URL("./migrations/", import.meta.url)): Promise<string[]> {
  const sql = openPool({
    url,
    connections: 1,
    statementTimeout: 600_000,
    connectTimeout: 5_000,
    name: "starling migrate",
  })
  try {
    return await sql.begin(async transaction => {
      await transaction`SELECT pg_advisory_xact_lock(${migrationLock})`
      await transaction`CREATE TABLE IF NOT EXISTS migrations (name text PRIMARY KEY, digest text NOT NULL, ran_at timestamptz NOT NULL DEFAULT now())`
      const ran = new Map(
        (await transaction<{ name: string; digest: string }[]>`SELECT name, digest FROM migrations`).map(row => [
          row.name,
          row.digest,
        ]),
      )
      const fresh: string[] = []
      for (const name of await migrationFiles(folder)) {
        const text = await readFile(new URL(name, folder), "utf8")
        const digest = createHash("sha256").update(text).digest("hex")
        const known = ran.get(name)
        if (known === digest) continue
        if (known !== undefined)
          throw new Error(`migration ${name} has changed since it ran; migrations only go forward, add a new file`)
        await transaction.unsafe(text)
        await transaction`INSERT INTO migrations (name, digest) VALUES (${name}, ${digest})`
        fresh.push(name)
      }
      return fresh
    })
  } finally {
    await sql.end({ timeout: 1 })
  }
}

async function migrationFiles(folder: URL): Promise<string[]> {
  const names = (await readdir(folder)).filter(name => name.endsWith(".sql")).toSorted()
  if (names.length === 0) throw new Error(`no migrations in ${folder.pathname}`)
  return names
}
