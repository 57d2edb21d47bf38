/** An S3-compatible object store of a test's own: versitygw, which keeps objects as files. */
import { spawn, type ChildProcess } from "node:child_process"
import { once } from "node:events"
import { mkdir, mkdtemp, rm } from "node:fs/promises"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
// @ts-expect-error: plain JavaScript, as it runs before anything is installed
import { buildObjectStore } from "../../scripts/prepare.mjs"
import { freePort } from "../../src/std/child-server.ts"
import { until } from "./until.ts"

export interface OwnObjectStore {
  readonly port: number
  /** The value of FILES_URL for one of its buckets, or for a port that leads to it. */
  url(bucket: string, port?: number): string
  makeBucket(name: string): Promise<void>
  /** SIGKILL. */
  kill(): Promise<void>
  /** After `kill`; resolves when it answers. */
  start(): Promise<void>
  pause(): Promise<void>
  resume(): Promise<void>
  /** Ends it and takes away what it keeps. */
  close(): Promise<void>
}

const [key, secret] = ["starling", "sec/ret+1"]
/** Milliseconds that a build may take on a busy machine. */
export const builtWithinMs = 15 * 60_000

/** @returns why there is none, where there is none */
export async function ownObjectStore(...buckets: readonly string[]): Promise<OwnObjectStore | string> {
  const program = (await buildObjectStore()) as string | undefined
  if (program === undefined) return "no object store: there is no Go on this machine that could build one"
  const folder = await mkdtemp(join(tmpdir(), "starling-objects-"))
  for (const name of ["objects", "facts"]) await mkdir(join(folder, name))
  const port = await freePort()
  let server: ChildProcess
  let isPaused = false
  const store: OwnObjectStore = {
    port,
    url: (bucket, at = port) => `s3://${key}:${encodeURIComponent(secret)}@127.0.0.1:${at}/${bucket}?tls=off`,
    async makeBucket(name) {
      await mkdir(join(folder, "objects", name))
    },
    async kill() {
      if (server.exitCode !== null || server.signalCode !== null) return
      const gone = once(server, "exit")
      server.kill("SIGKILL")
      await gone
    },
    async start() {
      const backend = ["posix", "--sidecar", join(folder, "facts"), join(folder, "objects")]
      const words = ["--access", key, "--secret", secret, "--port", `127.0.0.1:${port}`, "--quiet", ...backend]
      server = spawn(program, words, { stdio: "ignore" })
      await until("the object store answers", () => isListening(port))
    },
    async pause() {
      server.kill("SIGSTOP")
      isPaused = true
    },
    async resume() {
      if (isPaused) server.kill("SIGCONT")
      isPaused = false
    },
    async close() {
      await store.kill()
      await rm(folder, { recursive: true, force: true })
    },
  }
  for (const bucket of buckets) await store.makeBucket(bucket)
  await store.start()
  return store
}

function isListening(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(port, "127.0.0.1")
    const end = (isOpen: boolean) => () => {
      socket.destroy()
      resolve(isOpen)
    }
    socket.on("connect", end(true)).on("error", end(false))
  })
}
