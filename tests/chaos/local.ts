/**
 * The system under test on this machine: one program, its PostgreSQL and its Redis, each behind a
 * proxy.
 */
import { execFile } from "node:child_process"
import { chmod, mkdir, open, rm, writeFile, type FileHandle } from "node:fs/promises"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { promisify } from "node:util"
import { Redis } from "ioredis"
import postgres from "postgres"
// @ts-expect-error: plain JavaScript, as it runs before anything is installed
import { installPackages } from "../../scripts/prepare.mjs"
import { freePort, type ChildLog } from "../../src/std/child-server.ts"
import { startEmbeddedRedis, type EmbeddedRedis } from "../../src/cluster/embedded.ts"
import { startEmbeddedPostgres, type EmbeddedPostgres } from "../../src/storage/core/embedded.ts"
import { startProcesses } from "../kit/processes.ts"
import { until } from "../kit/until.ts"
import { openLink } from "./proxy.ts"
import type { PostgresService, RedisService, StartSystem } from "./system.ts"

const run = promisify(execFile)
const quiet: ChildLog = { info() {}, warn() {}, error() {} }
/** How long a service may take to come back; recovery reads its log first. */
const comeBack = 30_000

export const startLocalSystem: StartSystem = async ({ folder, workers, heapMegabytes, environment }) => {
  const undo: (() => Promise<unknown>)[] = []
  const stop = async () => {
    for (const step of undo.splice(0).reverse()) await step()
  }
  const impossible = new Map<string, string>()
  try {
    await mkdir(folder, { recursive: true })
    await chmod(folder, 0o755) // as root, PostgreSQL runs as another user
    const disk = await smallDisk(join(folder, "disk"))
    if (disk.mounted) undo.push(() => run("umount", ["-l", disk.path]))
    else impossible.set("postgres disk full", disk.why)

    const database = await startPostgres(disk.path, disk.mounted)
    undo.push(() => database.stop())
    const memory = await startRedis(join(folder, "redis"))
    undo.push(() => memory.stop())

    const toPostgres = await openLink("postgres", () => ({ host: "127.0.0.1", port: database.port }))
    undo.push(() => toPostgres.close())
    const toRedis = await openLink("redis", () => ({ host: "127.0.0.1", port: memory.port }))
    undo.push(() => toRedis.close())

    const clocks = await movableClocks(join(folder, "clocks"))
    if (typeof clocks === "string")
      for (const fault of ["clock +1 h", "clock -1 h", "clock +1 s", "clock -1 s"]) impossible.set(fault, clocks)
    const movable = typeof clocks === "string" ? undefined : clocks
    const program = await startProcesses({
      ...environment,
      WORKERS: String(workers),
      DATABASE_URL: through(database.url, toPostgres.port),
      REDIS_URL: through(memory.url, toRedis.port),
      NODE_OPTIONS: [movable?.nodeOption, heapMegabytes && `--max-old-space-size=${heapMegabytes}`]
        .filter(Boolean)
        .join(" "),
      ...movable?.environment,
    })
    undo.push(() => program.stop())
    const toProgram = await openLink("public", () => ({ host: "127.0.0.1", port: Number(new URL(program.url).port) }))
    undo.push(() => toProgram.close())

    return {
      urls: [`http://127.0.0.1:${toProgram.port}`],
      hosts: [
        {
          name: "host",
          url: program.url,
          workers: () => program.workers(),
          signal: program.kill,
          metrics: () => program.metrics(),
          shiftClock: movable?.shift,
          log: () => program.stderr(),
        },
      ],
      postgres: database,
      redis: [memory],
      links: { public: [toProgram], postgres: [toPostgres], redis: [toRedis] },
      impossible,
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

export function through(url: string, port: number): string {
  const there = new URL(url)
  there.port = String(port)
  return there.href
}

/** A file system that can be filled without harm to anybody else. */
async function smallDisk(
  path: string,
): Promise<{ path: string; mounted: true } | { path: string; mounted: false; why: string }> {
  await mkdir(path, { recursive: true })
  if (process.getuid?.() !== 0) return { path, mounted: false, why: "only root may mount a small disk" }
  try {
    await run("mount", ["-t", "tmpfs", "-o", "size=320m,mode=755", "starling-chaos", path], { timeout: 10_000 })
    return { path, mounted: true }
  } catch (error) {
    return { path, mounted: false, why: `no small disk: ${(error as Error).message.trim().split("\n").at(-1)}` }
  }
}

/**
 * Signals for a process and all that it has forked; the parent first, so that it forks nothing in
 * between.
 */
async function signalTree(pid: number, name: NodeJS.Signals): Promise<void> {
  const send = (to: number) => {
    try {
      process.kill(to, name)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error
    }
  }
  if (name !== "SIGCONT") send(pid)
  const { stdout } = await run("ps", ["-A", "-o", "pid=,ppid="])
  for (const line of stdout.split("\n")) {
    const [child, parent] = line.trim().split(/\s+/).map(Number)
    if (parent === pid && child) send(child)
  }
  if (name === "SIGCONT") send(pid)
}

export async function startPostgres(
  dataDir: string,
  small: boolean,
): Promise<PostgresService & { port: number; stop(): Promise<void> }> {
  const port = await freePort()
  const extraSettings = {
    // The order of commits is looked at in the end.
    track_commit_timestamp: "on",
    max_connections: "80",
    shared_buffers: "64MB",
    min_wal_size: "32MB",
    max_wal_size: small ? "64MB" : "256MB",
    // On a full disk the next segment of the log must not be an old one.
    wal_recycle: small ? "off" : "on",
  }
  const launch = () => startEmbeddedPostgres({ dataDir, port, log: quiet, extraSettings })
  let server: EmbeddedPostgres = await launch()
  let running = true
  const watch = (one: EmbeddedPostgres) =>
    one.exited.then(() => {
      if (one === server) running = false
    })
  watch(server).catch(() => {})
  const ended = async () => {
    await server.exited
    await server.stop() // gives its claim on the folder back
  }
  const { url } = server
  return {
    name: "PostgreSQL",
    url,
    port,
    pause: () => signalTree(server.pid, "SIGSTOP"),
    resume: () => signalTree(server.pid, "SIGCONT"),
    async kill() {
      if (running) await signalTree(server.pid, "SIGKILL")
      await ended()
    },
    async start() {
      const isBack = async () => {
        // It may also give up while it recovers.
        if (!running) {
          await server.stop()
          server = await launch()
          running = true
          watch(server).catch(() => {})
        }
        return answers(url)
      }
      await until("PostgreSQL answers", isBack, { timeoutMs: comeBack, everyMs: 100 })
    },
    exhaust: () => takeConnections(url),
    fillDisk: small ? () => fillDisk(dataDir, url) : undefined,
    async stop() {
      if (running) await signalTree(server.pid, "SIGCONT")
      await server.stop()
    },
  }
}

async function answers(url: string): Promise<boolean> {
  const sql = postgres(url, { max: 1, connect_timeout: 2, onnotice: () => {} })
  try {
    await sql`SELECT 1`
    return true
  } catch {
    return false
  } finally {
    await sql.end({ timeout: 1 }).catch(() => {})
  }
}

/** Takes what is free, and what becomes free, until it is told to let go. */
async function takeConnections(url: string): Promise<() => Promise<void>> {
  const held: postgres.Sql[] = []
  const order = { letGo: false }
  let refused = () => {}
  const isFull = new Promise<void>(resolve => (refused = resolve))
  const take = async () => {
    while (!order.letGo) {
      const sql = postgres(url, { max: 1, connect_timeout: 2, idle_timeout: 0, onnotice: () => {}, onclose: () => {} })
      try {
        await sql`SELECT 1`
        held.push(sql)
      } catch {
        refused()
        await sql.end({ timeout: 1 }).catch(() => {})
        await sleep(100)
      }
    }
  }
  const takers = Array.from({ length: 6 }, take)
  await Promise.race([isFull, sleep(10_000)])
  return async () => {
    order.letGo = true
    await Promise.all(takers)
    await Promise.all(held.map(sql => sql.end({ timeout: 2 }).catch(() => {})))
  }
}

/** Fills it and makes PostgreSQL need more, so that it is certain to meet the end. */
async function fillDisk(folder: string, url: string): Promise<() => Promise<void>> {
  const path = join(folder, "ballast")
  const file = await open(path, "w")
  const sql = postgres(url, { max: 1, connect_timeout: 2, onnotice: () => {} })
  const refused = (query: PromiseLike<unknown>) =>
    query.then(
      () => false,
      () => true,
    )
  const noticed = async () => {
    await fill(file)
    // Each switch takes another segment of the log, and without one nothing goes on. But what a
    // checkpoint gives back may be enough for the next; a table that is larger than that is refused
    // for certain.
    for (let segment = 0; segment < 8; segment++)
      if (await refused(sql`SELECT pg_logical_emit_message(true, 'chaos', repeat('x', 8192)), pg_switch_wal()`))
        return true
    await fill(file)
    return refused(sql`CREATE TEMPORARY TABLE ballast AS SELECT repeat('x', 500) FROM generate_series(1, 100000)`)
  }
  try {
    await until("PostgreSQL notices that its disk is full", noticed, { timeoutMs: 15_000 })
  } catch (error) {
    await rm(path)
    throw error
  } finally {
    await file.close()
    await sql.end({ timeout: 1 }).catch(() => {})
  }
  return () => rm(path)
}

async function fill(file: FileHandle): Promise<void> {
  for (let piece = Buffer.alloc(1024 * 1024); ;)
    try {
      await file.write(piece)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error
      if (piece.length <= 4096) return
      piece = Buffer.alloc(piece.length / 4)
    }
}

export async function startRedis(
  folder: string,
): Promise<RedisService & { url: string; port: number; stop(): Promise<void> }> {
  const port = await freePort()
  const password = "chaos"
  let home = 0
  let server: EmbeddedRedis
  let running = false
  const launch = async () => {
    server = await startEmbeddedRedis({ dataDir: join(folder, String(home)), port, password, log: quiet })
    running = true
    const one = server
    one.exited
      .then(() => {
        if (one === server) running = false
      })
      .catch(() => {})
  }
  await launch()
  const client = async <T>(act: (redis: Redis) => Promise<T>): Promise<T> => {
    const redis = new Redis(server.url, { lazyConnect: true, maxRetriesPerRequest: 0, commandTimeout: 5_000 })
    redis.on("error", () => {})
    try {
      await redis.connect()
      return await act(redis)
    } finally {
      redis.disconnect()
    }
  }
  return {
    name: "Redis",
    url: server!.url,
    port,
    pause: async () => void process.kill(server.pid, "SIGSTOP"),
    resume: async () => void process.kill(server.pid, "SIGCONT"),
    async kill() {
      if (running) process.kill(server.pid, "SIGKILL")
      await server.exited
      await server.stop()
    },
    start: launch,
    async startEmpty() {
      home++
      await launch()
    },
    configure: (name, value) => client(async redis => void (await redis.config("SET", name, value))),
    async stop() {
      if (running) process.kill(server.pid, "SIGCONT")
      await server.stop()
    },
  }
}

const libraries = [
  "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
  "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
  "/usr/lib/faketime/libfaketimeMT.so.1",
]

interface Clocks {
  environment: Record<string, string>
  nodeOption: string
  shift(place: string, seconds: number): Promise<void>
}

/**
 * By libfaketime (Debian's package `faketime`), which root may install. The answer is a reason
 * where it cannot be had.
 */
async function movableClocks(folder: string): Promise<Clocks | string> {
  const find = () => libraries.find(path => existsSync(path))
  await installPackages(["faketime"], () => find() !== undefined)
  const library = find()
  if (!library) return "libfaketime is not installed (Debian: apt-get install faketime)"

  await mkdir(folder, { recursive: true })
  const preload = join(folder, "own-clock.cjs")
  // The library asks for the name again each time it looks, so every place gets a clock of its own.
  await writeFile(
    preload,
    `const place = process.argv.slice(2).join("-")\n` +
      `if (/^(web|job)-/.test(place)) process.env.FAKETIME_TIMESTAMP_FILE = ${JSON.stringify(`${folder}/`)} + place\n`,
  )
  const write = (place: string, seconds: number) =>
    writeFile(join(folder, place.replace(" ", "-")), `${seconds < 0 ? "" : "+"}${seconds}\n`)
  await write("primary", 0)
  return {
    environment: {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: join(folder, "primary"),
      FAKETIME_CACHE_DURATION: "1",
      DONT_FAKE_MONOTONIC: "1",
    },
    nodeOption: `--require ${preload}`,
    shift: write,
  }
}
