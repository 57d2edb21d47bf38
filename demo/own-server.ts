import { spawn } from "node:child_process"
import { once } from "node:events"
import { chmod, mkdtemp, rm, stat } from "node:fs/promises"
import { createServer } from "node:net"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"

export interface OwnServer {
  url: string
  /** The primary's; the other processes are its children. */
  pid: number
  metricsUrl: string
  /** The end of its output, to tell why it has exited. */
  output(): string
  stop(): Promise<void>
}

export interface OwnServerOptions {
  /** The server to run; the build of this checkout when left out. */
  mainFile?: string | undefined
  /** On top of what every server of our own is given. */
  environment?: Record<string, string>
}

const readyTimeoutMs = 180_000
const stopTimeoutMs = 30_000
const keptOutput = 8_000

// `dist/demo` and `demo` both have the root above them, one or two steps up.
const above = join(import.meta.dirname, "..")
const built = join(above, above.endsWith("dist") ? "src/main.js" : "dist/src/main.js")

/** A server of our own on free ports, without limits, whose data ends with it. */
export async function startOwnServer({
  mainFile = built,
  environment = {},
}: OwnServerOptions = {}): Promise<OwnServer> {
  await stat(mainFile).catch((cause: unknown) => {
    throw new Error(`${mainFile} is missing: build first (npm start does), or name a server with --url`, { cause })
  })
  const [port, metricsPort] = await freePorts(2)
  const data = await mkdtemp(join(tmpdir(), "starling-demo-"))
  // PostgreSQL does not run as root: its own user has to get in here.
  await chmod(data, 0o755)

  const child = spawn(process.execPath, [mainFile], {
    env: {
      ...process.env,
      RATE_LIMITS: "off",
      CONNECTIONS_PER_USER: "100000",
      UNLIMITED_ADDRESSES: "127.0.0.0/8",
      HOST: "127.0.0.1",
      PORT: String(port),
      METRICS_PORT: String(metricsPort),
      DATA_DIR: data,
      WORKERS: "2",
      ...environment,
    },
    stdio: ["ignore", "pipe", "pipe"],
    // Ctrl-C reaches us only; we end the server, in order.
    detached: true,
  })
  let output = ""
  const keep = (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-keptOutput)
  }
  child.stdout.on("data", keep)
  child.stderr.on("data", keep)
  const ended = new Promise<void>(resolve => {
    child.once("error", cause => {
      output += String(cause)
      resolve()
    })
    child.once("exit", () => resolve())
  })
  let isRunning = true
  const whenEnded = ended.then(() => {
    isRunning = false
  })

  const stop = async () => {
    if (isRunning) {
      child.kill("SIGTERM")
      const late = setTimeout(() => child.kill("SIGKILL"), stopTimeoutMs)
      await whenEnded
      clearTimeout(late)
    }
    await rm(data, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
  }

  const url = `http://127.0.0.1:${port}`
  const deadline = performance.now() + readyTimeoutMs
  try {
    while (!(await isReady(url))) {
      if (!isRunning) throw new Error(`the server ended before it was ready:\n${output}`)
      if (performance.now() > deadline)
        throw new Error(`the server was not ready in ${readyTimeoutMs / 1_000} s:\n${output}`)
      await new Promise(resolve => setTimeout(resolve, 200))
    }
  } catch (cause) {
    await stop()
    throw cause
  }
  const metricsUrl = `http://127.0.0.1:${metricsPort}/metrics`
  return { url, pid: child.pid!, metricsUrl, output: () => output, stop }
}

async function isReady(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(2_000) })
    await response.arrayBuffer()
    return response.status === 200
  } catch {
    return false // nobody listens yet
  }
}

/** Held together, so that they differ. */
async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, "127.0.0.1"))
  await Promise.all(servers.map(server => once(server, "listening")))
  const ports = servers.map(server => (server.address() as AddressInfo).port)
  await Promise.all(servers.map(server => new Promise(resolve => server.close(resolve))))
  return ports
}
