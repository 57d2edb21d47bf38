import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { pbkdf2 } from "node:crypto"
import { once } from "node:events"
import { existsSync } from "node:fs"
import { chmod, chown, mkdir, mkdtemp, readFile, readdir, readlink, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { createInterface } from "node:readline"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { Redis } from "ioredis"
import postgres from "postgres"
import { afterEach, expect, test, vi } from "vitest"
import { commandLine, spawnServer } from "../../src/std/child-server.ts"
import { openRedis } from "../../src/cluster/redis.ts"
import { type EmbeddedRedisOptions, startEmbeddedRedis } from "../../src/cluster/embedded.ts"
import { openPool } from "../../src/storage/core/database.ts"
import { type EmbeddedPostgresOptions, startEmbeddedPostgres } from "../../src/storage/core/embedded.ts"
import type { Started } from "../kit/embedded-child.ts"

// Every cluster that is made is written to the disk, which others may keep busy.
vi.setConfig({ testTimeout: 180_000 })

const derive = promisify(pbkdf2)

const isRoot = process.getuid?.() === 0
const nobody = 65_534
const program = fileURLToPath(new URL("../kit/embedded-child.ts", import.meta.url))

const undo: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

async function folder(mode = 0o755): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "starling-embedded-"))
  await chmod(path, mode)
  undo.push(() => rm(path, { recursive: true, force: true }))
  return path
}

function recordingLog() {
  const warnings: string[] = []
  const errors: string[] = []
  return {
    warnings,
    errors,
    info: () => undefined,
    warn: (_: object, message: string) => warnings.push(message),
    error: (_: object, message: string) => errors.push(message),
  }
}

async function startPostgres(options: Partial<EmbeddedPostgresOptions> & { dataDir: string }) {
  const server = await startEmbeddedPostgres({ log: recordingLog(), ...options })
  undo.push(() => server.stop())
  return server
}

async function startRedis(options: Partial<EmbeddedRedisOptions> & { dataDir: string }) {
  const server = await startEmbeddedRedis({ log: recordingLog(), ...options })
  undo.push(() => server.stop())
  return server
}

/** Another process that starts both; it ends with the test. */
async function startBothElsewhere(
  dataDir: string,
  { uid, wrapped = [] }: { uid?: number; wrapped?: readonly string[] } = {},
): Promise<Started & { child: ChildProcess }> {
  const [command, ...args] = [...wrapped, process.execPath, "--import", "tsx", program, dataDir]
  const child = spawn(command, args, {
    stdio: ["ignore", "pipe", "pipe"],
    ...(uid !== undefined && { uid, gid: uid }),
  })
  undo.push(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    // `unshare` passes on no SIGTERM; with it ends all that it holds.
    child.kill(wrapped.length > 0 ? "SIGKILL" : "SIGTERM")
    await once(child, "exit")
  })
  let complaints = ""
  child.stderr.on("data", text => (complaints += text))
  for await (const line of createInterface({ input: child.stdout })) return { ...(JSON.parse(line) as Started), child }
  throw new Error(`the other process ended: ${complaints}`)
}

async function killNow(child: ChildProcess): Promise<void> {
  child.kill("SIGKILL")
  await once(child, "exit")
}

async function query<T>(url: string, ask: (sql: postgres.Sql) => Promise<T>): Promise<T> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined })
  try {
    return await ask(sql)
  } finally {
    await sql.end({ timeout: 1 })
  }
}

async function redisCommand<T>(url: string, ask: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(url, { retryStrategy: () => null })
  redis.on("error", () => undefined) // the command tells
  try {
    return await ask(redis)
  } finally {
    redis.disconnect()
  }
}

/**
 * A process that ended and that nobody has waited for yet (a container's first process may not) has
 * no words left.
 */
async function areAlive(...pids: number[]): Promise<boolean[]> {
  return Promise.all(pids.map(async pid => (await commandLine(pid)) !== undefined))
}

async function gone(...pids: number[]): Promise<void> {
  while ((await areAlive(...pids)).includes(true)) await sleep(20)
}

const remember = (url: string, word: string) =>
  query(url, async sql => {
    await sql`CREATE TABLE IF NOT EXISTS words (word text)`
    await sql`INSERT INTO words VALUES (${word})`
  })
const remembered = (url: string) => query(url, async sql => (await sql`SELECT word FROM words`).map(row => row["word"]))

/** As the server's own processes come in: with the password, through a folder that is this user's alone. */
async function throughSocket(localUrl: string): Promise<void> {
  const pool = (url: string) =>
    openPool({ url, connections: 1, statementTimeoutMs: 5_000, connectTimeoutMs: 5_000, name: "test" })
  const socket = new URL(localUrl).searchParams.get("host")!
  // As root it is a folder of PostgreSQL's user in one of ours.
  expect((await stat(socket)).mode & 0o777).toBe(0o700)
  const sql = pool(localUrl)
  expect(await sql`SELECT inet_client_addr() AS address`).toEqual([{ address: null }])
  await sql.end()
  // Somebody clears the folder away: its port is still there.
  const gone = new URL(localUrl)
  gone.searchParams.set("host", `${socket}-gone`)
  const byPort = pool(gone.href)
  expect(await byPort`SELECT inet_client_addr() IS NOT NULL AS is_port`).toEqual([{ is_port: true }])
  await byPort.end()
  const wrong = new URL(localUrl)
  wrong.password = "guess"
  const refused = pool(wrong.href)
  await expect(refused`SELECT 1`).rejects.toThrow(/password/)
  await refused.end()
}

test("PostgreSQL keeps its data over a restart, asks for a password and is reached from this machine only", async () => {
  const dataDir = await folder()
  const first = await startPostgres({ dataDir, extraSettings: { work_mem: "5MB" } })
  await remember(first.url, "Übermut ✓")
  await query(first.url, async sql => {
    const show = async (name: string) => (await sql.unsafe(`SHOW ${name}`))[0]?.[name] as string
    expect(await show("server_encoding")).toBe("UTF8")
    expect(await show("synchronous_commit")).toBe("on")
    expect(await show("fsync")).toBe("on")
    expect(await show("work_mem")).toBe("5MB")
    expect(await show("listen_addresses")).toBe("127.0.0.1")
    expect(await sql`SELECT lower('ÉCOLE') AS word`).toEqual([{ word: "école" }])
  })
  const stranger = new URL(first.url)
  stranger.password = "guess"
  await expect(remembered(stranger.href)).rejects.toThrow(/password/)
  await throughSocket(first.localUrl)
  await first.stop()
  expect(await areAlive(first.pid)).toEqual([false])

  const second = await startPostgres({ dataDir })
  expect(await remembered(second.url)).toEqual(["Übermut ✓"])
})

test("Redis keeps its data over a restart, asks for a password and evicts nothing", async () => {
  const dataDir = await folder()
  const first = await startRedis({ dataDir })
  await redisCommand(first.url, redis => redis.set("word", "here"))
  expect(await redisCommand(first.url, redis => redis.config("GET", "maxmemory-policy"))).toContain("noeviction")
  const stranger = first.url.replace(/:[0-9a-f]{48}@/, "")
  await expect(redisCommand(stranger, redis => redis.get("word"))).rejects.toThrow()
  const socket = new URL(first.localUrl).searchParams.get("path")!
  expect((await stat(dirname(socket))).mode & 0o777).toBe(0o700)
  await redisCommand(first.localUrl, async redis => {
    expect(await redis.get("word")).toBe("here")
    expect(await redis.client("LIST")).toContain(`${socket}:0`)
  })
  const byPort = openRedis(first.localUrl.replace(encodeURIComponent(socket), "gone"), "test", () => {})
  await byPort.connect()
  expect(await byPort.get("word")).toBe("here")
  byPort.disconnect()
  await expect(redisCommand(first.localUrl.replace(/:[0-9a-f]{48}@/, ""), redis => redis.get("word"))).rejects.toThrow()
  await first.stop()
  expect(existsSync(dirname(socket))).toBe(false)
  expect(await areAlive(first.pid)).toEqual([false])

  const second = await startRedis({ dataDir })
  expect(await redisCommand(second.url, redis => redis.get("word"))).toBe("here")
})

test("a folder in use is refused, by the name of the process that has it", async () => {
  const dataDir = await folder()
  const { child, postgres: theirs, redis } = await startBothElsewhere(dataDir)
  await expect(startPostgres({ dataDir })).rejects.toThrow(`in use by process ${child.pid}`)
  await expect(startRedis({ dataDir })).rejects.toThrow(`in use by process ${child.pid}`)
  expect(await areAlive(theirs.pid, redis.pid)).toEqual([true, true])
})

/** A container as far as processes go: a pid means another process there, and the others are not seen. */
const inContainer = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
const hasContainers =
  process.platform === "linux" && isRoot && spawnSync(inContainer[0]!, [...inContainer.slice(1), "true"]).status === 0

test.runIf(hasContainers)(
  "CHILD1: a folder in use by another container is refused, and its databases go on",
  async () => {
    const dataDir = await folder()
    const { postgres: theirs, redis } = await startBothElsewhere(dataDir, { wrapped: inContainer })
    await remember(theirs.url, "theirs")
    await expect(startPostgres({ dataDir })).rejects.toThrow(/in use by process \d+, started on/)
    await expect(startRedis({ dataDir })).rejects.toThrow(/in use by process \d+, started on/)
    // Their PostgreSQL looks at its pid file now and then, and would end if that were changed.
    const pidFile = join(dataDir, "postgres", "data", "postmaster.pid")
    expect((await readFile(pidFile, "utf8")).split("\n")[0]).toBe(String(theirs.pid))
    expect(await remembered(theirs.url)).toEqual(["theirs"])
    expect(await redisCommand(redis.url, client => client.ping())).toBe("PONG")
  },
)

test.runIf(hasContainers)(
  "CHILD1: databases that outlived the Starling of another container are not started twice",
  async () => {
    const dataDir = await folder()
    const { child, postgres: theirs } = await startBothElsewhere(dataDir, { wrapped: inContainer })
    await remember(theirs.url, "theirs")
    // Its claim is gone, as if it had never been: only PostgreSQL itself says that it is there.
    for (const name of ["postgres.lock", "postgres.lock.held"]) await rm(join(dataDir, name), { force: true })
    await expect(startPostgres({ dataDir })).rejects.toThrow(/a PostgreSQL of another container runs over it/)
    expect(await remembered(theirs.url)).toEqual(["theirs"])
    await killNow(child)
    const again = await startPostgres({ dataDir })
    expect(await remembered(again.url)).toEqual(["theirs"])
  },
)

test("CHILD1: two starts at the same moment: one wins, the other is refused", async () => {
  const dataDir = await folder()
  const both = await Promise.allSettled([startPostgres({ dataDir }), startPostgres({ dataDir })])
  expect(both.map(each => each.status).sort()).toEqual(["fulfilled", "rejected"])
})

test("CHILD2: the servers end when Starling is killed with -9, and what was committed is there at the next start", async () => {
  const dataDir = await folder()
  const killed = await startBothElsewhere(dataDir)
  await remember(killed.postgres.url, "committed")
  await redisCommand(killed.redis.url, redis => redis.set("word", "here"))
  await killNow(killed.child)
  await gone(killed.postgres.pid, killed.redis.pid)

  const again = await startBothElsewhere(dataDir)
  expect(await remembered(again.postgres.url)).toEqual(["committed"])
  expect(await redisCommand(again.redis.url, redis => redis.get("word"))).toBe("here")
})

test("a start does not wait for the servers of a killed Starling to end by themselves", async () => {
  const dataDir = await folder()
  const killed = await startBothElsewhere(dataDir)
  await killNow(killed.child)
  const again = await startBothElsewhere(dataDir)
  expect(await areAlive(killed.postgres.pid, killed.redis.pid)).toEqual([false, false])
  expect(await areAlive(again.postgres.pid, again.redis.pid)).toEqual([true, true])
})

test.runIf(process.platform === "linux")("servers that outlived everything are ended by the next start", async () => {
  const dataDir = await folder()
  const killed = await startBothElsewhere(dataDir)
  for (const pid of await watchersOf(killed.postgres.pid, killed.redis.pid)) process.kill(pid, "SIGKILL")
  await remember(killed.postgres.url, "committed")
  await killNow(killed.child)
  await sleep(300) // time in which they would have ended
  expect(await areAlive(killed.postgres.pid, killed.redis.pid)).toEqual([true, true])

  const log = recordingLog()
  const sql = await startPostgres({ dataDir, log })
  await startRedis({ dataDir, log })
  expect(log.warnings).toEqual([
    expect.stringMatching(/PostgreSQL.*left behind/),
    expect.stringMatching(/Redis.*left behind/),
  ])
  expect(await areAlive(killed.postgres.pid, killed.redis.pid)).toEqual([false, false])
  expect(await remembered(sql.url)).toEqual(["committed"])
})

test("a server that is killed with -9 is reported, and starts again with what was committed", async () => {
  const dataDir = await folder()
  const log = recordingLog()
  const first = await startPostgres({ dataDir, log })
  await remember(first.url, "committed")
  process.kill(first.pid, "SIGKILL")
  expect(await first.exited).toBe("ended by SIGKILL")
  expect(log.errors).toEqual(["embedded PostgreSQL ended by itself"])
  await first.stop()

  const second = await startPostgres({ dataDir })
  expect(await remembered(second.url)).toEqual(["committed"])
})

test("stale files are harmless: reused pids, a cut-off postmaster.pid, a half-made cluster", async () => {
  const dataDir = await folder()
  const first = await startPostgres({ dataDir })
  await remember(first.url, "committed")
  const file = join(dataDir, "postgres", "data", "postmaster.pid")
  const content = await readFile(file, "utf8")
  process.kill(first.pid, "SIGKILL")
  await first.exited
  await first.stop()

  const stranger = spawn("sleep", ["600"], { ...(isRoot && { uid: nobody, gid: nobody }) })
  undo.push(() => killNow(stranger))
  await writeFile(file, content.replace(/^\d+/, String(stranger.pid)))
  await writeFile(join(dataDir, "postgres.lock"), `${stranger.pid} another process of that number`)
  await mkdir(join(dataDir, "redis"))
  await writeFile(join(dataDir, "redis", "redis.pid"), `${stranger.pid}\n`)
  const second = await startPostgres({ dataDir })
  await startRedis({ dataDir })
  expect(await remembered(second.url)).toEqual(["committed"])
  expect(await areAlive(stranger.pid!)).toEqual([true])
  await second.stop()

  await writeFile(file, "")
  await mkdir(join(dataDir, "postgres", "data.new"))
  const third = await startPostgres({ dataDir })
  expect(await remembered(third.url)).toEqual(["committed"])
  await third.stop()

  await rm(join(dataDir, "postgres", "data"), { recursive: true })
  const anew = await startPostgres({ dataDir })
  await remember(anew.url, "new")
  expect(await remembered(anew.url)).toEqual(["new"])
})

test("the end of a server is noticed, however soon it comes", async () => {
  const logFile = join(await folder(), "log")
  // Work of others is in front of closing the log here, and the server does not wait for it.
  const over = new AbortController()
  const busy = Array.from({ length: 8 }, async () => {
    while (!over.signal.aborted) await derive("a password", "salt", 20_000, 32, "sha512")
  })
  const server = await spawnServer({
    command: "/bin/false",
    args: [],
    logFile,
    account: undefined,
    shutdownSignals: [],
  })
  expect(await server.exited).toBe("ended with code 1")
  over.abort()
  await Promise.all(busy)
})

test("a setting that PostgreSQL refuses is reported at once, in its words", async () => {
  const dataDir = await folder()
  await expect(startPostgres({ dataDir, extraSettings: { shared_buffers: "much" } })).rejects.toThrow(/shared_buffers/)
  await startPostgres({ dataDir })
})

test.runIf(isRoot)("root's data can lie where PostgreSQL's user cannot go", async () => {
  const closed = await folder(0o700)
  const dataDir = join(closed, "data")
  const log = recordingLog()
  const first = await startPostgres({ dataDir, log })
  const elsewhere = await readlink(join(dataDir, "postgres"))
  undo.unshift(() => rm(elsewhere, { recursive: true }))
  expect(log.warnings).toEqual([expect.stringContaining("elsewhere")])
  await remember(first.url, "committed")
  await first.stop()
  const second = await startPostgres({ dataDir })
  expect(await remembered(second.url)).toEqual(["committed"])
  expect(await readlink(join(dataDir, "postgres"))).toBe(elsewhere)
})

test.runIf(isRoot && (await othersMayRead(program)))(
  "an ordinary user runs both, and root may run them after",
  async () => {
    const dataDir = await folder()
    await chown(dataDir, nobody, nobody)
    const theirs = await startBothElsewhere(dataDir, { uid: nobody })
    await remember(theirs.postgres.url, "committed")
    expect((await stat(`/proc/${theirs.postgres.pid}`)).uid).toBe(nobody)
    await killNow(theirs.child)

    const ours = await startPostgres({ dataDir })
    await startRedis({ dataDir })
    expect(await remembered(ours.url)).toEqual(["committed"])
    expect((await stat(`/proc/${ours.pid}`)).uid).toBe(nobody)
  },
)

async function watchersOf(...servers: number[]): Promise<number[]> {
  const pids = (await readdir("/proc")).map(Number).filter(pid => pid > 0)
  const lines = await Promise.all(pids.map(pid => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")))
  const found = pids.filter((_, i) => servers.some(server => lines[i]?.endsWith(`\0${server}\0`)))
  expect(found).toHaveLength(servers.length)
  return found
}

/** False for a checkout in a closed home folder. */
async function othersMayRead(file: string): Promise<boolean> {
  const child = spawn("test", ["-r", file], isRoot ? { uid: nobody, gid: nobody } : {})
  const [code] = await once(child, "exit")
  return code === 0
}
