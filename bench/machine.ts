import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { cpus, release, totalmem } from "node:os"
import { createRequire } from "node:module"
import { Redis } from "ioredis"
import postgres from "postgres"

export interface Versions {
  starling: string
  node: string
  postgres: string
  redis: string
  uWebSockets: string
  kernel: string
}

export interface Machine {
  cpu: string
  cores: number
  memoryGiB: number
  /** Of the minute before the benchmark; what others did then they may go on with. */
  loadBefore: number
}

const require = createRequire(import.meta.url)
const versionOf = (name: string) =>
  (JSON.parse(readFileSync(require.resolve(`${name}/package.json`), "utf8")) as { version: string }).version

export async function versions(databaseUrl: string, redisUrl: string): Promise<Versions> {
  const sql = postgres(databaseUrl, { max: 1 })
  const redis = new Redis(redisUrl)
  try {
    const [row] = await sql<{ server_version: string }[]>`SHOW server_version`
    const facts = await redis.info("server")
    const field = (name: string) => new RegExp(`^${name}:(.*?)\r?$`, "m").exec(facts)?.[1]
    const valkey = field("valkey_version")
    return {
      starling: versionOf(".."),
      node: process.versions.node,
      postgres: row!.server_version,
      redis: valkey === undefined ? (field("redis_version") ?? "unknown") : `Valkey ${valkey}`,
      uWebSockets: versionOf("uWebSockets.js"),
      kernel: release(),
    }
  } finally {
    redis.disconnect()
    await sql.end({ timeout: 5 })
  }
}

export function machine(loadBefore: number): Machine {
  const all = cpus()
  return {
    cpu: all[0]?.model ?? "unknown",
    cores: all.length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    loadBefore: Math.round(loadBefore * 100) / 100,
  }
}

/**
 * Of this checkout, with a plus sign where something was changed since; `unknown` where there is no
 * git.
 */
export function commit(): string {
  const git = (...args: string[]) =>
    execFileSync("git", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim()
  try {
    const id = git("rev-parse", "--short", "HEAD")
    return git("status", "--porcelain", "--untracked-files=no") === "" ? id : `${id}+`
  } catch {
    return "unknown"
  }
}
