/**
 * A server program (PostgreSQL, Redis) that Starling runs as its own child over a folder. It keeps:
 *   CHILD2  No child process is orphaned: it ends when Starling dies in any way, else (both were
 *       killed) the next start ends it. An orphan is not adopted, because its old clients may still
 *       write.
 * Ctrl-C in a terminal reaches only Starling, which drains first and stops the child last.
 */
import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { open, readFile, rename } from "node:fs/promises"
import { createServer } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { promisify } from "node:util"

export interface ChildLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** A user to run as; undefined runs as the user Starling runs as. */
export type Account = { uid: number; gid: number } | undefined

/** Signals to try one after the other, each with the milliseconds it is given. */
export type ShutdownSignals = readonly (readonly [signal: NodeJS.Signals, wait: number])[]

export interface ChildServer {
  pid: number
  /** Resolves, never rejects, with how it ended. */
  exited: Promise<string>
  stop(): Promise<void>
}

/**
 * When a process began, in words that are worth comparing only; undefined when there is none. A pid
 * alone is reused.
 */
export async function birthOf(pid: number): Promise<string | undefined> {
  if (process.platform !== "linux") return run("ps", ["-o", "lstart=", "-p", String(pid)])
  const status = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "")
  // After the name, which may hold anything: state, …, and the start as the 20th.
  const fields = status.slice(status.lastIndexOf(")") + 2).split(" ")
  if (!fields[19] || fields[0] === "Z") return undefined
  return `${(await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim()} ${fields[19]}`
}

/** The words a process was started with, as one text; undefined when there is none. */
export async function commandLine(pid: number): Promise<string | undefined> {
  if (process.platform !== "linux") return run("ps", ["-ww", "-o", "command=", "-p", String(pid)])
  const words = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")
  return words.replaceAll("\0", " ").trim() || undefined
}

async function run(command: string, args: string[]): Promise<string | undefined> {
  const { stdout } = await promisify(execFile)(command, args, { timeout: 5_000 }).catch(() => ({ stdout: "" }))
  return stdout.trim() || undefined
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1")
  await once(probe, "listening")
  const address = probe.address()
  probe.close()
  await once(probe, "close")
  if (address === null || typeof address === "string") throw new Error("no port on 127.0.0.1")
  return address.port
}

/**
 * CHILD2. Ends a process of a Starling that is gone; `isOurs` is asked before every signal, as pids
 * are reused.
 */
export async function endOrphan(
  pid: number,
  isOurs: () => Promise<boolean>,
  shutdownSignals: ShutdownSignals,
): Promise<void> {
  for (const [signal, wait] of shutdownSignals) {
    if (!(await isOurs())) return
    process.kill(pid, signal)
    for (const until = Date.now() + wait; Date.now() < until && (await isOurs());) await sleep(25)
  }
  if (await isOurs()) throw new Error(`process ${pid}, left over from an earlier run, does not end`)
}

/**
 * What a server wrote goes to a file: a pipe would have no reader once Starling is gone. One
 * earlier run is kept.
 */
export async function spawnServer(child: {
  command: string
  args: string[]
  logFile: string
  account: Account
  shutdownSignals: ShutdownSignals
}): Promise<ChildServer> {
  await rename(child.logFile, `${child.logFile}.previous`).catch(() => undefined)
  const output = await open(child.logFile, "w", 0o600)
  const server = spawn(child.command, child.args, {
    cwd: "/", // the server's user may not be able to enter ours
    detached: true, // A process group of its own: Ctrl-C does not reach it
    stdio: ["ignore", output.fd, output.fd],
    env: { PATH: "/usr/local/bin:/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" }, // ours holds secrets
    ...child.account,
  })
  // From the first moment on: one that dislikes a setting has ended before its log is closed here.
  const exited = new Promise<string>(resolve => {
    server.once("exit", (code, signal) => resolve(signal ? `ended by ${signal}` : `ended with code ${code}`))
  })
  try {
    await once(server, "spawn")
  } finally {
    await output.close()
  }
  const pid = server.pid!
  const watch = endWithUs(pid, child.shutdownSignals[0]?.[0] ?? "SIGTERM", child.account)
  const done = exited.then(how => {
    watch.kill("SIGKILL")
    return how
  })
  return {
    pid,
    exited: done,
    async stop() {
      for (const [signal, wait] of child.shutdownSignals) {
        server.kill(signal) // does nothing once it has ended
        if (await within(wait, done)) return
      }
      throw new Error(`process ${pid} (${child.command}) does not end`)
    },
  }
}

/**
 * CHILD2. A shell waits for the end of a pipe that Starling holds; the kernel closes it also after
 * SIGKILL.
 */
function endWithUs(pid: number, signal: NodeJS.Signals, account: Account) {
  const watch = spawn("/bin/sh", ["-c", 'read -r _; kill -s "$0" "$1"', signal.replace("SIG", ""), String(pid)], {
    cwd: "/",
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
    ...account,
  })
  watch.unref()
  watch.on("error", () => undefined) // no shell: the next start ends the orphan
  watch.stdin.on("error", () => undefined)
  return watch
}

export async function within(milliseconds: number, promise: Promise<unknown>): Promise<boolean> {
  const waiting = new AbortController()
  const late = sleep(milliseconds, false, { signal: waiting.signal }).catch(() => false)
  const inTime = await Promise.race([promise.then(() => true), late])
  waiting.abort()
  return inTime
}

/** The end of what a server wrote, for the message about its failure. */
export async function lastWords(logFile: string): Promise<string> {
  return (await readFile(logFile, "utf8").catch(() => "")).trim().split("\n").slice(-8).join("\n")
}
