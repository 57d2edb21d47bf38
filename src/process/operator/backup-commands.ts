import { existsSync } from "node:fs"
import { constants, setPriority } from "node:os"
import { join, resolve } from "node:path"
import { clusterConfig } from "../../../cluster.config.ts"
import type { Config } from "../../config.ts"
import { BackupRuns, backUp } from "../../storage/backup.ts"
import { BackupProblem, BackupWriter, type Contents } from "../../storage/core/backup-archive.ts"
import { runningPostgres, startEmbeddedPostgres } from "../../storage/core/embedded.ts"
import { openBlobs } from "../../storage/core/open-blobs.ts"
import { NotEmpty, restore } from "../../storage/restore.ts"
import { openStorage, type Storage } from "../../storage/storage.ts"
import { givenKey, keepKey } from "../primary/secret-key.ts"
import { Misuse, Refusal, type WholeCommands } from "./saying.ts"

/** The part of the time that a backup works while the service may run. */
const gentleShare = 0.5
const quiet = { info() {}, warn() {}, error() {} }
const { connectTimeoutMs } = clusterConfig.commandStorage

/** Of everything that the service keeps. */
export const backupCommands: WholeCommands = {
  backup: {
    takes: ["FILE"],
    flags: ["without-key", "without-files", "full-speed"],
    async run({ config, given: [name], flags }) {
      const path = resolve(name!)
      const to = await BackupWriter.create(path).catch((error: Error) => {
        throw new Refusal(error.message)
      })
      if (!to) throw new Refusal(`${path} is there already`)
      const blobs = flags.has("without-files") ? undefined : openBlobs(config.files)
      setPriority(constants.priority.PRIORITY_LOW)
      let database: Awaited<ReturnType<typeof databaseIn>> | undefined
      try {
        database = await databaseIn(config)
        const ended = await noteBegin(database.url, path)
        const contents = await backUp({
          url: database.url,
          connectTimeoutMs,
          to,
          files: blobs,
          secretKey: flags.has("without-key") ? undefined : await givenKey(config),
          share: flags.has("full-speed") ? 1 : gentleShare,
          note: console.error,
        })
        await ended()
        return summary(`${path}: ${megabytes(to.bytes)}`, contents)
      } catch (error) {
        await to.abandon().catch(() => {})
        if (error instanceof BackupRuns) throw new Refusal(error.message)
        throw error
      } finally {
        blobs?.close()
        await database?.stop?.()
      }
    },
  },

  restore: {
    takes: ["FILE"],
    flags: ["without-files"],
    async run({ config, given: [name], flags }) {
      const path = resolve(name!)
      if (!existsSync(path)) throw new Refusal(`${path}: there is no such file`)
      const { databaseUrl, dataDir } = config
      const database =
        databaseUrl === undefined ? await startEmbeddedPostgres({ dataDir, log: quiet }) : { url: databaseUrl }
      const blobs = flags.has("without-files") ? undefined : openBlobs(config.files)
      try {
        const { contents } = await restore({
          path,
          url: database.url,
          connectTimeoutMs,
          files: blobs,
          keepKey: key => keepKey(config, key),
          note: console.error,
        })
        return summary(`restored from ${path}; servers can be started`, contents)
      } catch (error) {
        if (error instanceof BackupProblem)
          throw new Refusal(`${path} is no whole backup, and nothing was written: ${error.message}`)
        if (error instanceof NotEmpty)
          throw new Refusal(
            `${error.message}. ${databaseUrl === undefined ? `Move ${join(dataDir, "postgres", "data")} away` : "Name another one in DATABASE_URL, made with CREATE DATABASE … ENCODING 'UTF8'"}: a restore overwrites nothing`,
          )
        throw error
      } finally {
        blobs?.close()
        if ("stop" in database) await database.stop()
      }
    },
  },
}

/** Beside a server that runs; where PostgreSQL is embedded and no server runs, it is started. */
async function databaseIn({ databaseUrl, dataDir }: Config): Promise<{ url: string; stop?: () => Promise<void> }> {
  if (databaseUrl !== undefined) return { url: databaseUrl }
  if (!existsSync(join(dataDir, "postgres", "data")))
    throw new Misuse(`${dataDir}: no PostgreSQL found. Set DATA_DIR or DATABASE_URL as for the server`)
  if (existsSync(join(dataDir, "postgres", "data", "postmaster.pid"))) return { url: await runningPostgres(dataDir) }
  return startEmbeddedPostgres({ dataDir, log: quiet })
}

/** In the trail of operators: who has the file has everything. @returns notes that it was done */
async function noteBegin(url: string, path: string): Promise<() => Promise<void>> {
  const act = async <T>(ask: (storage: Storage) => Promise<T>): Promise<T> => {
    const storage = openStorage({ ...clusterConfig.commandStorage, url, name: "starling operator" })
    try {
      return await ask(storage)
    } finally {
      await storage.close()
    }
  }
  const entry = { operator: undefined, action: "command line: backup", target: path, input: "{}", address: "" }
  const id = await act(async ({ migrations, operatorTrail }) => {
    await migrations.require()
    return operatorTrail.begin(entry)
  })
  return () => act(({ operatorTrail }) => operatorTrail.end(id, { outcome: 200, error: undefined, result: "{}" }))
}

function summary(first: string, { mark, tables, files, hasKey }: Contents): string {
  const rows = tables.reduce((sum, table) => sum + table.rows, 0)
  const lines = [
    first,
    `everything that was answered before ${mark.at} (PostgreSQL's clock) is in it; highest message id ${mark.message_id ?? "–"}`,
    `${rows} rows of ${tables.length} tables, ${files.count} files (${megabytes(files.bytes)})${hasKey ? ", the secret key" : ", without the secret key"}`,
  ]
  if (files.missing.length > 0)
    lines.push(`${files.missing.length} files had been lost by the store before:`, ...files.missing.slice(0, 20))
  return lines.join("\n")
}

const megabytes = (bytes: number) => `${(bytes / 1_000_000).toFixed(1)} MB`
