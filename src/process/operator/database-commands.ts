import { chmod, mkdir, readFile, realpath, rename, rm, stat } from "node:fs/promises"
import { join, resolve } from "node:path"
import { clusterConfig } from "../../../cluster.config.ts"
import { backUp } from "../../storage/backup.ts"
import { BackupWriter } from "../../storage/core/backup-archive.ts"
import { openPool } from "../../storage/core/database.ts"
import { startEmbeddedPostgres } from "../../storage/core/embedded.ts"
import { restore } from "../../storage/restore.ts"
import { Misuse, Refusal, type WholeCommands } from "./saying.ts"

const quiet = { info() {}, warn() {}, error() {} }
const { connectTimeoutMs, statementTimeoutMs } = clusterConfig.commandStorage

/** Of the embedded PostgreSQL. */
export const databaseCommands: WholeCommands = {
  "database upgrade": {
    takes: [],
    options: ["programs"],
    async run({ config: { databaseUrl, dataDir }, options: { programs } }) {
      if (databaseUrl !== undefined)
        throw new Misuse("database upgrade is for the embedded PostgreSQL: DATABASE_URL is set")
      const folder = await realpath(join(dataDir, "postgres")).catch(() => {
        throw new Refusal(`${dataDir}: no PostgreSQL found. Set DATA_DIR as for the server`)
      })
      const data = join(folder, "data")
      const work = join(dataDir, "upgrade")
      const version = await versionOf(data)
      if (version === undefined) throw new Refusal(`${data} is not there; a former one beside it can be renamed back`)
      if (programs === undefined)
        throw new Misuse(
          `database upgrade takes --programs: the folder with the program postgres of version ${version}, such as /usr/lib/postgresql/${version}/bin`,
        )
      await rm(work, { recursive: true, force: true })
      await mkdir(work)
      // As root, PostgreSQL runs as another user, who has to get to its own folder in it.
      await chmod(work, 0o711)
      const archive = join(work, "database.tar")
      await copyOut(dataDir, resolve(programs), archive)
      console.error(`read everything from PostgreSQL ${version}; writing it to the new one`)
      const fresh = await copyIn(work, archive, await readFile(join(folder, "password"), "utf8"))
      const former = join(folder, `data-${version}`)
      await rename(data, former)
      await rename(fresh, data)
      await rm(await realpath(join(work, "postgres")), { recursive: true, force: true })
      await rm(work, { recursive: true, force: true })
      return `PostgreSQL ${version} has become ${await versionOf(data)}. Start the server. When all is well, delete ${former}`
    },
  },
}

async function versionOf(data: string): Promise<string | undefined> {
  if (!(await stat(data).catch(() => undefined))) return undefined
  return (await readFile(join(data, "PG_VERSION"), "utf8")).trim()
}

/** Files and key stay where they are. */
async function copyOut(dataDir: string, programs: string, path: string): Promise<void> {
  const former = await startEmbeddedPostgres({ dataDir, log: quiet, programs })
  try {
    const to = await BackupWriter.create(path)
    if (!to) throw new Refusal(`${path} is there already`)
    await backUp({ url: former.url, connectTimeoutMs, to, share: 1, note: console.error })
  } finally {
    await former.stop()
  }
}

/** @returns the folder of the new data */
async function copyIn(work: string, path: string, password: string): Promise<string> {
  const next = await startEmbeddedPostgres({ dataDir: work, log: quiet })
  try {
    await restore({ path, url: next.url, connectTimeoutMs, keepKey: async () => {}, note: console.error })
    const sql = openPool({
      url: next.url,
      connections: 1,
      connectTimeoutMs,
      statementTimeoutMs,
      name: "starling operator",
    })
    try {
      // Hexadecimal digits: DATA_DIR goes on with the file that it has.
      await sql.unsafe(`ALTER ROLE starling PASSWORD '${password.replaceAll(/[^0-9a-f]/g, "")}'`)
    } finally {
      await sql.end({ timeout: 1 })
    }
  } finally {
    await next.stop()
  }
  return join(await realpath(join(work, "postgres")), "data")
}
