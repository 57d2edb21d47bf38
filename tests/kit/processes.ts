import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { chmod, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { startEmbeddedRedis } from "../../src/cluster/embedded.ts"
import type { Endpoint } from "./person.ts"
import { until } from "./until.ts"

const main = fileURLToPath(new URL("../../dist/src/main.js", import.meta.url))

/** People register by the hundred here: what their passwords cost is tested where hashing is. */
export const cheapHashes = { STARLING_PASSWORD_HASH_MEMORY: "64", STARLING_PASSWORD_HASH_PASSES: "1" }

export interface ChildProcess {
  readonly pid: number
  /** Such as "web 0" or "job 0". */
  readonly slot: string
}

/** The program itself: its primary, and through it the workers. */
export interface Processes extends Endpoint {
  readonly pid: number
  readonly metricsUrl: string
  readonly redisUrl: string
  /** The processes that the primary has forked and that live now. */
  workers(): Promise<ChildProcess[]>
  kill(pid: number, signal: NodeJS.Signals): void
  /** Its exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>
  /** Series by name with labels, such as `starling_processes{role="web"}`. */
  metrics(): Promise<Map<string, number>>
  stdout(): string
  stderr(): string
  /** SIGTERM, and SIGKILL for what does not end. */
  stop(): Promise<void>
}

/**
 * Waits until every worker serves. Ports are free ones. The Redis is its own, unless `env` names one.
 * @param program another version's `main.js`
 */
export async function startProcesses(env: Record<string, string>, program = main): Promise<Processes> {
  const folder = await mkdtemp(join(tmpdir(), "starling-processes-"))
  await chmod(folder, 0o755) // as root, PostgreSQL runs as another user
  const quiet = { info() {}, warn() {}, error() {} }
  const redis = env["REDIS_URL"]
    ? undefined
    : await startEmbeddedRedis({ dataDir: folder, log: quiet, appendonly: false })
  const redisUrl = env["REDIS_URL"] ?? redis!.url
  const child = spawn(process.execPath, [program], {
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: process.env["PATH"],
      HOST: "127.0.0.1",
      PORT: "0",
      METRICS_PORT: "0",
      LOG_LEVEL: "warn",
      RATE_LIMITS: "off",
      CONNECTIONS_PER_USER: "100000",
      UNLIMITED_ADDRESSES: "127.0.0.0/8",
      DATA_DIR: folder,
      SECRET_KEY: "one key for every host of a test",
      // An earlier version refuses settings that it does not know.
      ...(program === main ? cheapHashes : {}),
      ...env,
      REDIS_URL: redisUrl,
    },
  })
  let stdout = ""
  let stderr = ""
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text))
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text))
  let isRunning = true
  const ended = once(child, "exit").then(([code, signal]) => {
    isRunning = false
    return (signal ?? code) as number | string
  })
  const pid = child.pid!

  const workers = async (): Promise<ChildProcess[]> => {
    const { stdout: lines } = await promisify(execFile)("ps", ["-A", "-ww", "-o", "pid=,ppid=,args="])
    return lines.split("\n").flatMap(line => {
      const [, own, parent, slot] = line.match(/^\s*(\d+)\s+(\d+)\s.*main\.js ((?:web|job) \d+)\s*$/) ?? []
      return Number(parent) === pid && slot ? [{ pid: Number(own), slot }] : []
    })
  }
  const stop = async () => {
    const left = isRunning ? await workers() : []
    if (isRunning) {
      // A paused process could not end in good order.
      for (const { pid } of left) signal(pid, "SIGCONT")
      child.kill("SIGTERM")
      const late = setTimeout(() => {
        child.kill("SIGKILL")
        for (const { pid } of left) signal(pid, "SIGKILL")
      }, 10_000)
      await ended
      clearTimeout(late)
    }
    await redis?.stop()
    await rm(folder, { recursive: true, force: true })
  }

  try {
    await until("the program is ready", () => !isRunning || stdout.includes("Ctrl-C ends it"), { timeoutMs: 90_000 })
    if (!isRunning) throw new Error(`the program ended: ${stderr}`)
  } catch (error) {
    await stop()
    throw error
  }
  const metricsUrl = /metrics +(http:\S+)/.exec(stdout)![1]!
  return {
    url: /health +(http:\S+)\/health/.exec(stdout)![1]!,
    pid,
    metricsUrl,
    redisUrl,
    workers,
    kill: signal,
    ended,
    async metrics() {
      const lines = (await (await fetch(metricsUrl)).text()).split("\n")
      return new Map(
        lines.flatMap((line): [string, number][] => {
          const at = line.lastIndexOf(" ")
          return line === "" || line.startsWith("#") ? [] : [[line.slice(0, at), Number(line.slice(at + 1))]]
        }),
      )
    },
    stdout: () => stdout,
    stderr: () => stderr,
    stop,
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error
  }
}
