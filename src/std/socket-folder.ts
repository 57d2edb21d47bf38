import { chmod, chown, lstat, mkdir, mkdtemp, readdir, rm, rmdir, stat, unlink } from "node:fs/promises"
import { connect, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Account } from "./child-server.ts"

/** What the path of a unix socket may have: in C it ends with a zero, in 108 bytes on Linux and 104 elsewhere. */
const maxPathBytes = 103
/** Of a path below the folder: `postgres/.s.PGSQL.65535`. */
const maxNameBytes = 24

const prefix = "starling-sockets-"

/**
 * Makes a folder for sockets of one primary and its children, which no other user may enter, and removes those that killed
 * primaries of this user have left.
 */
export async function makeSocketFolder(parent = tmpdir()): Promise<string> {
  await removeLeftFolders(parent).catch(() => {})
  const folder = await mkdtemp(join(parent, `${prefix}${process.pid}-`)) // 0700, and new
  if (Buffer.byteLength(folder) + 1 + maxNameBytes <= maxPathBytes) return folder
  await rm(folder, { recursive: true, force: true })
  throw new Error(`${parent} is too long a path for a unix socket`)
}

/**
 * The same for a server program that makes its sockets itself.
 * @param account whom it runs as: it gets a folder of its own below
 * @returns undefined where there can be none: its clients go through its port then
 */
export async function socketFolderOf(name: string, account: Account): Promise<SocketFolder | undefined> {
  // PostgreSQL takes a list of folders, with commas and quotes.
  if (process.platform === "win32" || /[",]/.test(tmpdir())) return undefined
  try {
    const whole = await makeSocketFolder()
    const folder = account ? join(whole, name) : whole
    if (account) {
      await mkdir(folder, { mode: 0o700 })
      await chown(folder, account.uid, account.gid)
      await chmod(whole, 0o711)
    }
    return { folder, remove: () => removeFolder(whole).catch(() => {}) }
  } catch {
    return undefined
  }
}

export interface SocketFolder {
  readonly folder: string
  /** Once the server has ended. */
  remove(): Promise<void>
}

/** Name by name, so that nobody whose folder is in it can lead this elsewhere. */
async function removeFolder(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name)
    if (!(await lstat(path)).isDirectory()) await unlink(path)
    else {
      for (const inside of await readdir(path)) await unlink(join(path, inside))
      await rmdir(path)
    }
  }
  await rmdir(folder)
}

/** A number may be another process by now, or one of another container that shares the folder: a socket that answers is in use. */
async function removeLeftFolders(parent: string): Promise<void> {
  const uid = process.getuid?.()
  for (const name of await readdir(parent)) {
    const pid = name.startsWith(prefix) ? Number.parseInt(name.slice(prefix.length), 10) : NaN
    if (!Number.isInteger(pid) || pid === process.pid || isRunning(pid)) continue
    const folder = join(parent, name)
    const { uid: owner } = await stat(folder)
    if (owner !== uid || (await isAnyListening(folder))) continue
    await removeFolder(folder).catch(() => {})
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"
  }
}

async function isAnyListening(folder: string): Promise<boolean> {
  for (const name of await readdir(folder, { recursive: true }))
    try {
      ;(await connected(join(folder, name))).destroy()
      return true
    } catch {
      // Its process has gone.
    }
  return false
}

/** A connection to what listens at a path. */
export function connected(path: string): Promise<Socket> {
  const socket = connect({ path })
  return new Promise((resolve, reject) => {
    socket.once("connect", () => {
      socket.off("error", reject)
      resolve(socket)
    })
    socket.once("error", reject)
  })
}
