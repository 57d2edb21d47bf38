/**
 * Fetches what Starling is measured beside, pinned, into a folder of its own below node_modules: it
 * is no dependency of the program, and is fetched once.
 */
import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { mkdir, readFile, rename, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"

const cache = join(import.meta.dirname, "..", "..", "node_modules", ".cache", "starling-peers")
const timeoutMs = 10 * 60_000

const packages = {
  ioredis: "5.11.1",
  "socket.io": "4.8.4",
  "@socket.io/redis-streams-adapter": "0.3.1",
  ws: "8.23.0",
}

const programs = {
  "nats-server": { module: "github.com/nats-io/nats-server/v2", version: "v2.15.3" },
  centrifugo: { module: "github.com/centrifugal/centrifugo/v6", version: "v6.9.1" },
}
export type ProgramName = keyof typeof programs

export const versionsOfPeers = {
  ...packages,
  ...Object.fromEntries(Object.entries(programs).map(([name, { version }]) => [name, version.slice(1)])),
}

/** Why something cannot be had here. */
export class Unavailable extends Error {
  override readonly name = "Unavailable"
}

const run = promisify(execFile)

async function fetched(what: string, command: string, args: string[], options: object): Promise<void> {
  try {
    await run(command, args, { timeout: timeoutMs, maxBuffer: 2 ** 26, ...options })
  } catch (cause) {
    const { code, stderr = "" } = cause as { code?: string; stderr?: string }
    const why = code === "ENOENT" ? `there is no ${command}` : (stderr.trim().split("\n").at(-1) ?? String(cause))
    throw new Unavailable(`${what}: ${why}`, { cause })
  }
}

/** @returns the package.json from whose folder the packages are found */
export async function installPackages(): Promise<string> {
  const folder = join(cache, "npm")
  const file = join(folder, "package.json")
  const done = join(folder, "installed.json")
  const wanted = JSON.stringify({ private: true, dependencies: packages }, undefined, 2)
  if ((await readFile(done, "utf8").catch(() => "")) === wanted) return file
  await mkdir(folder, { recursive: true })
  await writeFile(file, wanted)
  await fetched("npm", "npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"], {
    cwd: folder,
  })
  await writeFile(done, wanted)
  return file
}

/** @returns the program's file */
export async function installProgram(name: ProgramName): Promise<string> {
  const { module, version } = programs[name]
  const file = join(cache, `${name}-${version}`)
  if (existsSync(file)) return file
  const folder = join(cache, `go-${name}`)
  await mkdir(folder, { recursive: true })
  await fetched(name, "go", ["install", `${module}@${version}`], {
    cwd: folder,
    env: { ...process.env, GOBIN: folder, GOFLAGS: "-buildvcs=false" },
  })
  await rename(join(folder, name), file)
  return file
}
