import { createReadStream, type Stats } from "node:fs"
import { open, readdir, rename, rm, stat } from "node:fs/promises"
import { join } from "node:path"
import { currentLogName } from "../../observability/log-file.ts"
import type { Log } from "../../observability/log.ts"
import type { Clock, Timer } from "../../std/clock.ts"
import { zipOf } from "../../std/zip.ts"

export interface LogKeeperOptions {
  readonly folder: string
  /** A file is put aside when it is larger or older. */
  readonly maxFileBytes: number
  readonly maxFileAgeMs: number
  /** Files that were put aside are deleted, the oldest first, when all are larger, and each when it is older. */
  readonly maxBytes: number
  readonly keepMs: number
  readonly lookEveryMs: number
  readonly clock: Clock
  readonly log: Log
}

/** Every process has noticed by then that a file was put aside, and writes to the next one. */
const quietMs = 10_000
const putAside = /^starling-\d{8}-\d{6}(?:-\d+)?\.log(?:\.zip)?$/

interface Found {
  readonly name: string
  readonly stats: Stats
}

/**
 * Keeps the log files of a host within bounds: puts the current one aside, zips what was put aside, deletes what is old or too
 * much. What is not named as ours is left alone. Only the primary does so; the processes that write notice it.
 */
export class LogKeeper {
  readonly #options: LogKeeperOptions
  readonly #timer: Timer
  #looking: Promise<void> | undefined
  #isTroubled = false
  #isStopped = false

  constructor(options: LogKeeperOptions) {
    this.#options = options
    this.#timer = options.clock.every(options.lookEveryMs, () => {
      this.#looking ??= this.look().finally(() => (this.#looking = undefined))
    })
  }

  /** After the zip that is being written. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#timer.stop()
    await this.#looking
  }

  async look(): Promise<void> {
    try {
      await this.#putAside()
      await this.#zip()
      await this.#delete()
      this.#isTroubled = false
    } catch (error) {
      if (!this.#isTroubled) this.#options.log.warn({ err: error }, "log files are not looked after")
      this.#isTroubled = true
    }
  }

  async #putAside(): Promise<void> {
    const { folder, maxFileBytes, maxFileAgeMs, clock } = this.#options
    const path = join(folder, currentLogName)
    const there = await existing(path)
    if (!there || there.size === 0) return
    // File systems without times of birth give another one, which is later.
    if (there.size < maxFileBytes && clock.now() - there.birthtimeMs < maxFileAgeMs) return
    const at = new Date(clock.now()).toISOString().replace(/[-:]/g, "").replace("T", "-").slice(0, 15)
    for (let more = 1; ; more++) {
      const name = `starling-${at}${more === 1 ? "" : `-${more}`}.log`
      if ((await existing(join(folder, name))) || (await existing(join(folder, `${name}.zip`)))) continue
      return rename(path, join(folder, name))
    }
  }

  async #zip(): Promise<void> {
    const { folder, clock } = this.#options
    for (const { name, stats } of await this.#files()) {
      if (name.endsWith(".zip") || clock.now() - stats.ctimeMs < quietMs) continue
      if (this.#isStopped) return
      const path = join(folder, name)
      const part = `${path}.part`
      await rm(part, { force: true })
      const file = await open(part, "wx", 0o600)
      try {
        for await (const piece of zipOf(name, createReadStream(path), stats.mtime)) await file.writeFile(piece)
        await file.utimes(stats.atime, stats.mtime)
      } catch (error) {
        await rm(part, { force: true })
        throw error
      } finally {
        await file.close()
      }
      await rename(part, `${path}.zip`)
      await rm(path)
    }
  }

  async #delete(): Promise<void> {
    const { folder, maxBytes, keepMs, clock } = this.#options
    let bytes = 0
    for (const { name, stats } of await this.#files()) {
      bytes += stats.size
      if (bytes > maxBytes || clock.now() - stats.mtimeMs > keepMs) await rm(join(folder, name), { force: true })
    }
  }

  /** Those that were put aside, the newest first. */
  async #files(): Promise<Found[]> {
    const { folder } = this.#options
    const found: Found[] = []
    for (const name of await readdir(folder).catch(ifThere))
      if (putAside.test(name)) {
        const stats = await existing(join(folder, name))
        if (stats?.isFile()) found.push({ name, stats })
      }
    return found.toSorted((a, b) => (a.name < b.name ? 1 : -1))
  }
}

const existing = (path: string): Promise<Stats | undefined> => stat(path).catch(ifThereOne)

function ifThere(error: NodeJS.ErrnoException): string[] {
  if (error.code === "ENOENT") return []
  throw error
}
function ifThereOne(error: NodeJS.ErrnoException): undefined {
  if (error.code === "ENOENT") return undefined
  throw error
}
