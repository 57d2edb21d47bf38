/**
 * Says that a folder is in use, to processes of this machine, of other containers, and of other
 * hosts that mount the folder. It keeps:
 *   CHILD1  One Starling per folder. A claim is worth nothing once its process is gone.
 * Three proofs, because none of them holds everywhere:
 *   - the process that the claim names lives, where its pid means the same process here;
 *   - the operating system's lock (`flock`), which containers of one kernel share and which ends
 *     with its process in any case;
 *   - a heartbeat, the time of the claim's last change, for hosts that share no kernel.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { open, readFile, readlink, rename, rm, stat, utimes, writeFile } from "node:fs/promises"
import type { Socket } from "node:net"
import { hostname } from "node:os"
import { setTimeout as sleep } from "node:timers/promises"
import { birthOf, type ChildLog } from "./child-server.ts"

const heartbeatMs = 1_000
/** A claim that was not touched for so long while it was looked at belongs to nobody. */
const deadAfterMs = 6_000
/** The lock of a killed process ends a moment after it. */
const lockRetryMs = 3_000

/** What a claim says of its process. */
interface Claimant {
  readonly pid: number
  /** When it began, in words that are worth comparing only. */
  readonly birth: string
  /** The kernel that runs it, and the namespace in which its pid means something. */
  readonly kernel: string
  readonly namespace: string
  readonly host: string
}

/**
 * Resolves with the release; throws when somebody else uses the folder.
 * @param file says who uses it; the operating system's lock is on a file beside it
 */
export async function claimFolder(file: string, log: Pick<ChildLog, "error">): Promise<() => Promise<void>> {
  const me = await claimant()
  const before = await readClaim(file)
  if (before && isNear(before, me) && (await isRunning(before))) throw inUse(file, before)
  // A folder that cannot be written would look like one that somebody holds.
  await (await open(`${file}.held`, "a")).close()
  const unlock = await holdLock(`${file}.held`)
  if (unlock === "taken") throw inUse(file, await readClaim(file))
  const isLocked = unlock !== undefined
  try {
    const mine = JSON.stringify(me)
    for (;;) {
      try {
        await writeFile(file, mine, { flag: "wx" })
        break
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
      }
      const held = await readFile(file, "utf8").catch(() => "")
      if (await isAlive(file, held, me, isLocked)) throw inUse(file, parse(held))
      await takeAway(file, held)
    }
    let last: Touched | undefined
    const beat = setInterval(() => {
      touch(file, mine, last).then(
        touched => (last = touched),
        (err: unknown) => log.error({ err, file }, "the claim of the data folder is lost"),
      )
    }, heartbeatMs)
    beat.unref()
    return async () => {
      clearInterval(beat)
      if ((await readFile(file, "utf8").catch(() => "")) === mine) await takeAway(file, mine)
      await unlock?.()
    }
  } catch (error) {
    await unlock?.()
    throw error
  }
}

function inUse(file: string, holder: Claimant | undefined): Error {
  const who = holder ? `process ${holder.pid}, started on ${holder.host}` : "another container or host"
  return new Error(`${file}: the folder is in use by ${who}; end it, or set another DATA_DIR`)
}

async function claimant(): Promise<Claimant> {
  const read = (path: string) => readFile(path, "utf8").then(text => text.trim())
  return {
    pid: process.pid,
    birth: (await birthOf(process.pid)) ?? "",
    kernel: await read("/proc/sys/kernel/random/boot_id").catch(() => hostname()),
    namespace: await readlink("/proc/self/ns/pid").catch(() => hostname()),
    host: hostname(),
  }
}

const readClaim = async (file: string) => parse(await readFile(file, "utf8").catch(() => ""))

function parse(text: string): Claimant | undefined {
  try {
    const claim = JSON.parse(text) as Partial<Claimant>
    return typeof claim.pid === "number" ? (claim as Claimant) : undefined
  } catch {
    return undefined
  }
}

/** Whether a pid of one means the same process to the other. */
const isNear = (one: Claimant, other: Claimant) => one.kernel === other.kernel && one.namespace === other.namespace
const isRunning = async ({ pid, birth }: Claimant) => (await birthOf(pid)) === birth

async function isAlive(file: string, held: string, me: Claimant, isLocked: boolean): Promise<boolean> {
  const holder = parse(held)
  if (holder && isNear(holder, me)) return isRunning(holder)
  // Its lock would have ended with it, and this process has that lock.
  if (holder && holder.kernel === me.kernel && isLocked) return false
  // Of another host, or cut off while it was written: only the heartbeat tells.
  const seenAt = await touchedAt(file)
  for (const untilMs = Date.now() + (held === "" ? heartbeatMs : deadAfterMs); Date.now() < untilMs;) {
    await sleep(heartbeatMs / 4)
    if ((await touchedAt(file)) !== seenAt) return true
  }
  return false
}

/** A claim as its process has left it: while it is so, nobody has put another in its place. */
interface Touched {
  readonly ino: number
  /** Whole: the system keeps a fraction of seconds, which is seldom the same number of milliseconds again. */
  readonly mtimeMs: number
}

/** A process that was paused for long may have lost its claim to another, whose heartbeat this would be. */
async function touch(file: string, mine: string, last: Touched | undefined): Promise<Touched> {
  const { ino, mtimeMs } = await stat(file)
  const isMine = ino === last?.ino && Math.round(mtimeMs) === last.mtimeMs
  if (!isMine && (await readFile(file, "utf8")) !== mine) throw new Error("another has taken it")
  const now = new Date()
  await utimes(file, now, now)
  return { ino, mtimeMs: now.getTime() }
}

const touchedAt = (file: string) =>
  stat(file).then(
    ({ mtimeMs }) => mtimeMs,
    () => 0,
  )

/**
 * Two starts may see the same stale claim: the slower must not remove what the faster has put in
 * its place.
 */
async function takeAway(file: string, stale: string): Promise<void> {
  const aside = `${file}.${process.pid}`
  try {
    await rename(file, aside)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return
    throw error
  }
  const found = await readFile(aside, "utf8")
  if (found !== stale) await writeFile(file, found, { flag: "wx" })
  await rm(aside)
}

/**
 * Holds the lock of a file through a child that ends with this process, in whatever way that ends:
 * Node.js has no call for locks. Undefined: this system has no `flock` program.
 */
async function holdLock(file: string): Promise<(() => Promise<void>) | "taken" | undefined> {
  for (const untilMs = Date.now() + lockRetryMs; ;) {
    const child = spawn("flock", ["-n", file, "/bin/sh", "-c", "echo held; exec cat >/dev/null"], {
      cwd: "/",
      detached: true, // Ctrl-C ends Starling first
      stdio: ["pipe", "pipe", "ignore"],
    })
    child.stdin.on("error", () => undefined)
    const answer = await Promise.race([
      once(child.stdout, "data").then(() => "held" as const),
      once(child, "exit").then(() => "taken" as const),
      once(child, "error").then(() => undefined),
    ]).catch(() => undefined)
    if (answer === "held") {
      const ended = once(child, "exit").catch(() => undefined)
      // Holding a lock keeps no process alive; letting go of it does, until it is done.
      child.unref()
      ;(child.stdout as Socket).unref()
      ;(child.stdin as Socket).unref()
      return async () => {
        child.ref()
        child.stdin.end()
        await ended
      }
    }
    if (answer === undefined || Date.now() > untilMs) return answer
    await sleep(100)
  }
}

/**
 * A command that holds the lock of a file for as long as it, or a process that it started, lives;
 * it ends with code 75 when somebody else holds the lock. Without `flock` it runs unlocked.
 */
export const whileLocked = (file: string, command: string, args: readonly string[]) => ({
  command: "/bin/sh",
  args: [
    "-c",
    'if command -v flock >/dev/null; then exec 9>>"$0" && flock -n 9 || exit 75; fi; exec "$@"',
    file,
    command,
    ...args,
  ],
})

/** Waits until nobody holds the lock of a file any longer. False: somebody still does. */
export async function isUnlocked(file: string, timeoutMs: number): Promise<boolean> {
  if ((await stat(file).catch(() => undefined)) === undefined) return true
  for (const untilMs = Date.now() + timeoutMs; ;) {
    const unlock = await holdLock(file)
    if (unlock !== "taken") {
      await unlock?.()
      return true
    }
    if (Date.now() > untilMs) return false
  }
}
