/** PostgreSQL and Redis of a test's own, which it may stop, kill, pause and starve. Each comes back at the same address. */
import { execFile, spawn, type ChildProcess } from "node:child_process"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { chmod, chown, mkdir, mkdtemp, rm, stat, statfs, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { Redis } from "ioredis"
import postgres from "postgres"
import { freePort } from "../../src/std/child-server.ts"
import { startEmbeddedPostgres, type EmbeddedPostgres } from "../../src/storage/core/embedded.ts"
import { until } from "./until.ts"

const run = promisify(execFile)
const quiet = { info() {}, warn() {}, error() {} }

interface Service {
  readonly url: string
  /** In good order. */
  stop(): Promise<void>
  /** SIGKILL. */
  kill(): Promise<void>
  /** After `stop` or `kill`; resolves when it answers. */
  start(): Promise<void>
  /** SIGSTOP for every process of it. */
  pause(): Promise<void>
  resume(): Promise<void>
  /** Ends it and takes away what it wrote. */
  close(): Promise<void>
}

export interface OwnRedis extends Service {
  /** After `kill`: with nothing in it. */
  startEmpty(): Promise<void>
  command(...words: string[]): Promise<unknown>
}

export async function ownRedis(): Promise<OwnRedis> {
  const folder = await mkdtemp(join(tmpdir(), "starling-redis-"))
  const port = await freePort()
  const url = `redis://127.0.0.1:${port}`
  let server: ChildProcess
  let paused = false
  const command = async (...words: string[]) => {
    const redis = new Redis(url, { lazyConnect: true, commandTimeout: 2_000, connectTimeout: 2_000 })
    redis.on("error", () => {})
    try {
      await redis.connect()
      return await redis.call(words[0]!, ...words.slice(1))
    } finally {
      redis.disconnect()
    }
  }
  const end = async (signal: NodeJS.Signals) => {
    if (server.exitCode !== null || server.signalCode !== null) return
    const gone = once(server, "exit")
    if (paused) server.kill("SIGCONT")
    paused = false
    server.kill(signal)
    await gone
  }
  const service: OwnRedis = {
    url,
    command,
    stop: () => end("SIGTERM"),
    kill: () => end("SIGKILL"),
    async start() {
      server = spawn(
        "redis-server",
        ["--bind", "127.0.0.1", "--port", String(port), "--dir", folder, "--save", "", "--appendonly", "yes"],
        { stdio: "ignore" },
      )
      await until("Redis answers", () =>
        command("PING").then(
          () => true,
          () => false,
        ),
      )
    },
    async startEmpty() {
      await rm(join(folder, "appendonlydir"), { recursive: true, force: true })
      await service.start()
    },
    async pause() {
      server.kill("SIGSTOP")
      paused = true
    },
    async resume() {
      server.kill("SIGCONT")
      paused = false
    },
    async close() {
      await end("SIGKILL")
      await rm(folder, { recursive: true, force: true })
    },
  }
  await service.start()
  return service
}

export interface OwnPostgres extends Service {
  /** The same database as the superuser. `url` is that of an ordinary user, who owns the database and nothing else. */
  readonly sql: postgres.Sql
  /** The superuser's way to a database. */
  adminUrl(database: string): string
  /** Ends every connection of the ordinary user. */
  disconnectAll(): Promise<void>
  /** While it is stopped: keeps a copy of all it has, as a backup or a replica that falls behind would. */
  keepCopy(): Promise<void>
  /** While it is stopped: the copy takes its place. */
  restoreCopy(): Promise<void>
  /** Takes every free byte from under the database; undefined where that is not possible. */
  readonly fillDisk: (() => Promise<() => Promise<void>>) | undefined
}

/** With `small` the database lies on a file system of its own of so many megabytes, where this user may make one. */
export async function ownPostgres({ small = 0 }: { small?: number } = {}): Promise<OwnPostgres> {
  const folder = await mkdtemp(join(tmpdir(), "starling-postgres-"))
  await chmod(folder, 0o755) // as root, PostgreSQL runs as another user
  const port = await freePort()
  const extraSettings = { fsync: "off", full_page_writes: "off", max_connections: "60", shared_buffers: "32MB" }
  let server: EmbeddedPostgres
  let isUp = false
  const data = join(folder, "postgres", "data")
  const start = async () => {
    server = await startEmbeddedPostgres({ dataDir: folder, log: quiet, port, extraSettings })
    isUp = true
  }
  await start()
  const admin = new URL(server!.url)
  const first = postgres(admin.href, { max: 1, onnotice: () => {} })
  const password = randomBytes(12).toString("hex")
  await first.unsafe(`CREATE ROLE app LOGIN PASSWORD '${password}'`)
  const disk = small > 0 ? await smallDisk(folder, small) : undefined
  if (disk) await first.unsafe(`CREATE TABLESPACE small LOCATION '${disk}'`)
  await first.unsafe(`CREATE DATABASE app OWNER app ${disk ? "TABLESPACE small" : ""}`)
  await first.end()
  admin.pathname = "/app"
  const sql = postgres(admin.href, { max: 1, onnotice: () => {}, connect_timeout: 5, backoff: () => 0.05 })
  const url = new URL(admin)
  url.username = "app"
  url.password = password
  url.pathname = "/app"

  const processes = async () => {
    const { stdout } = await run("ps", ["-A", "-o", "pid=,ppid="])
    const pids = stdout.split("\n").map(line => line.trim().split(/\s+/).map(Number))
    return [server.pid, ...pids.flatMap(([pid, parent]) => (parent === server.pid ? [pid!] : []))]
  }
  const signalAll = async (signal: NodeJS.Signals) => {
    for (const pid of await processes())
      try {
        process.kill(pid, signal)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error
      }
  }
  const end = async () => {
    if (!isUp) return
    isUp = false
    await server.stop()
  }
  return {
    url: url.href,
    sql,
    stop: end,
    async kill() {
      process.kill(server.pid, "SIGKILL")
      await server.exited
      await end() // gives the folder back
    },
    start,
    pause: () => signalAll("SIGSTOP"),
    resume: () => signalAll("SIGCONT"),
    adminUrl: database => Object.assign(new URL(admin), { pathname: `/${database}` }).href,
    async disconnectAll() {
      await sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'`
    },
    async keepCopy() {
      await run("cp", ["-a", data, `${data}.copy`])
    },
    async restoreCopy() {
      await rm(data, { recursive: true })
      await run("mv", [`${data}.copy`, data])
    },
    fillDisk: disk
      ? async () => {
          const file = join(disk, "filler")
          const { bavail, bsize } = await statfs(disk)
          await writeFile(file, Buffer.alloc(bavail * bsize)).catch((error: NodeJS.ErrnoException) => {
            if (error.code !== "ENOSPC") throw error
          })
          return () => rm(file)
        }
      : undefined,
    async close() {
      await sql.end({ timeout: 1 })
      await end()
      if (disk) await run("umount", [disk])
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** A file system in memory that PostgreSQL's user may write to; undefined where this user may not make one. */
async function smallDisk(folder: string, megabytes: number): Promise<string | undefined> {
  const disk = join(folder, "small")
  await mkdir(disk)
  const made = await run("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m`, "none", disk]).then(
    () => true,
    () => false,
  )
  if (!made) return undefined
  const { uid, gid } = await stat(join(folder, "postgres", "data"))
  await chown(disk, uid, gid)
  return disk
}
