/**
 * A Redis as a child process, for machines where no REDIS_URL is given: `redis-server` or `valkey-server`, 6.2 or later.
 * Below DATA_DIR: `redis/` (append-only file, configuration with this run's password), `redis.log`, `redis.lock`.
 */
import { execFile } from "node:child_process"
import { randomBytes } from "node:crypto"
import { mkdir, readFile, realpath, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { promisify } from "node:util"
import { Redis } from "ioredis"
import {
  type ChildLog,
  type ChildServer,
  type ShutdownSignals,
  commandLine,
  endOrphan,
  freePort,
  lastWords,
  spawnServer,
  within,
} from "../std/child-server.ts"
import { claimFolder, isUnlocked, whileLocked } from "../std/folder-claim.ts"
import { socketFolderOf, type SocketFolder } from "../std/socket-folder.ts"

export interface EmbeddedRedis {
  url: string
  /** The same through a unix socket, where there can be one: for this user's programs on this machine. */
  localUrl: string
  pid: number
  /** Resolves, never rejects, with how the server ended; also when nobody stopped it. */
  exited: Promise<string>
  stop(): Promise<void>
}

export interface EmbeddedRedisOptions {
  dataDir: string
  log: ChildLog
  /** A free one when left out. */
  port?: number
  /** A new one when left out; the same for a Redis that comes back to clients it had. */
  password?: string
  /** False keeps nothing over a restart; for tests. */
  appendonly?: boolean
}

const shutdownSignals: ShutdownSignals = [
  ["SIGTERM", 10_000],
  ["SIGKILL", 5_000],
]

/** How long a Redis of a container that was killed is given to end. */
const lockTimeoutMs = 15_000
/** Locked by Redis itself for as long as it lives. */
const lockOf = (folder: string) => join(folder, "running.lock")

// Besides the PATH: Homebrew's folders, and those that a daemon's PATH may lack.
const folders = [
  "",
  "/usr/bin/",
  "/usr/local/bin/",
  "/usr/sbin/",
  "/usr/local/sbin/",
  "/opt/homebrew/bin/",
  "/snap/bin/",
]

export async function startEmbeddedRedis(options: EmbeddedRedisOptions): Promise<EmbeddedRedis> {
  const { log } = options
  const command = await findServer()
  await mkdir(options.dataDir, { recursive: true })
  const dataDir = await realpath(options.dataDir)
  const release = await claimFolder(join(dataDir, "redis.lock"), log)
  let sockets: SocketFolder | undefined
  try {
    const folder = join(dataDir, "redis")
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await endLeftOver(folder, log)
    if (!(await isUnlocked(lockOf(folder), lockTimeoutMs)))
      throw new Error(
        `${folder}: a Redis of another container runs over it; end that container, or set another DATA_DIR`,
      )
    sockets = await socketFolderOf("redis", undefined)
    const socket = sockets && join(sockets.folder, "redis")
    const { url, server } = await launch(command, { ...options, dataDir }, socket)

    let stopping = false
    const done = server.exited.then(how => {
      if (!stopping) log.error({ of_pid: server.pid, how }, "embedded Redis ended by itself")
      return how
    })
    log.info({ port: Number(new URL(url).port), of_pid: server.pid }, "embedded Redis is ready")
    return {
      url,
      localUrl: socket === undefined ? url : `${url}?path=${encodeURIComponent(socket)}`,
      pid: server.pid,
      exited: done,
      async stop() {
        stopping = true
        await server.stop()
        await sockets?.remove()
        await release()
      },
    }
  } catch (error) {
    await sockets?.remove()
    await release()
    throw error
  }
}

async function findServer(): Promise<string> {
  let tooOld: string | undefined
  for (const name of ["redis-server", "valkey-server"])
    for (const folder of folders) {
      const command = `${folder}${name}`
      const answer = await promisify(execFile)(command, ["--version"], { timeout: 5_000 }).catch(() => undefined)
      const [, major, minor] = answer?.stdout.match(/v=(\d+)\.(\d+)/) ?? []
      // XADD's NOMKSTREAM and XTRIM's MINID came with 6.2.
      if (Number(major) > 6 || (major === "6" && Number(minor) >= 2)) return command
      if (major) tooOld = `${command} is ${major}.${minor}`
    }
  throw new Error(
    `Redis 6.2 or later, or Valkey, is needed${tooOld ? ` (${tooOld})` : ""}. Install it (apt-get install redis-server, ` +
      "dnf install valkey, brew install redis), or set REDIS_URL.",
  )
}

function configFile(folder: string): string {
  return join(folder, "redis.conf")
}

/** A Redis that outlived its Starling is stopped. Its command line names our configuration file, so a reused pid is seen. */
async function endLeftOver(folder: string, log: ChildLog): Promise<void> {
  const pid = Number.parseInt(await readFile(join(folder, "redis.pid"), "utf8").catch(() => ""), 10)
  const isOurs = async () => (await commandLine(pid))?.includes(configFile(folder)) ?? false
  if (!(pid > 0) || !(await isOurs())) return
  log.warn({ of_pid: pid }, "stopping a Redis that an earlier run left behind")
  await endOrphan(pid, isOurs, shutdownSignals)
}

async function launch(
  command: string,
  { dataDir, port: wanted, password: given, appendonly = true }: EmbeddedRedisOptions,
  socket: string | undefined,
): Promise<{ url: string; server: ChildServer }> {
  const folder = join(dataDir, "redis")
  const logFile = join(dataDir, "redis.log")
  for (const until = Date.now() + 15_000; ;) {
    const port = wanted ?? (await freePort())
    // In a file, because everybody on the machine can read a command line.
    const password = given ?? randomBytes(24).toString("hex")
    const lines = [
      "bind 127.0.0.1",
      `port ${port}`,
      ...(socket === undefined ? [] : [`unixsocket ${JSON.stringify(socket)}`, "unixsocketperm 700"]),
      `requirepass ${password}`,
      `dir ${JSON.stringify(folder)}`,
      `pidfile ${JSON.stringify(join(folder, "redis.pid"))}`,
      "daemonize no",
      "set-proc-title no", // the command line is how a left-over is known
      `appendonly ${appendonly ? "yes" : "no"}`,
      "appendfsync everysec",
      // It wakes up so often a second to look after itself, ten times if nobody says otherwise.
      "hz 5",
      'save ""',
      "maxmemory-policy noeviction", // BullMQ's jobs and the delivery logs must not vanish
      // The record of a gateway session is longer than 64 bytes, and takes 170 more in a hash table. Newer versions say "listpack".
      "hash-max-ziplist-value 512",
    ]
    await writeFile(configFile(folder), `${lines.join("\n")}\n`, { mode: 0o600 })
    const server = await spawnServer({
      ...whileLocked(lockOf(folder), command, [configFile(folder)]),
      logFile,
      account: undefined,
      shutdownSignals,
    })
    const url = `redis://:${password}@127.0.0.1:${port}`
    if (await isReady(url, server)) return { url, server }
    const words = await lastWords(logFile)
    if (!/bind|Address already in use/i.test(words) || Date.now() > until)
      throw new Error(`The embedded Redis did not start (${await server.exited}):\n${words}`)
    await sleep(250)
  }
}

/** False when the server ended, or was ended because it took too long to read its file. */
async function isReady(url: string, server: ChildServer): Promise<boolean> {
  const probe = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 50, connectTimeout: 2_000 })
  probe.on("error", () => undefined) // refused until it listens
  let answered = false
  // The client holds the command back while Redis is loading.
  const pong = probe.ping().then(
    () => (answered = true),
    () => false, // by our own disconnect
  )
  const settled = await within(300_000, Promise.race([pong, server.exited]))
  probe.disconnect()
  if (!settled) await server.stop()
  return answered
}
