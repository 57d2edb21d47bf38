import { readFile } from "node:fs/promises"
import { cpus, freemem, totalmem } from "node:os"
import { rounded } from "../std/rounded.ts"
import { diskOf } from "./figures.ts"

/** Milliseconds over which the load of the processors is taken at least. */
const leastMs = 1_000
const megabyte = 1_048_576

interface Ticks {
  readonly atMs: number
  readonly busy: number
  readonly all: number
}

function ticksNow(): Ticks {
  let [busy, all] = [0, 0]
  for (const { times } of cpus()) {
    const sum = times.user + times.nice + times.sys + times.irq + times.idle
    all += sum
    busy += sum - times.idle
  }
  return { atMs: performance.now(), busy, all }
}

/** How busy this host and this process are. */
export class HostLoad {
  readonly #folder: string
  #before = ticksNow()
  #cpuPercent = 0

  /** @param folder on the disk that counts */
  constructor(folder: string) {
    this.#folder = folder
  }

  /** Null where the system does not tell. */
  async now() {
    try {
      const [status, memory, disk] = await Promise.all([
        readFile("/proc/self/status", "utf8"),
        readFile("/proc/meminfo", "utf8"),
        diskOf(this.#folder),
      ])
      const threads = Number(/^Threads:\s+(\d+)$/m.exec(status)?.[1])
      // What caches hold is free for programs.
      const available = /^MemAvailable:\s+(\d+) kB$/m.exec(memory)?.[1]
      const free = available === undefined ? freemem() : Number(available) * 1_024
      const used = totalmem() - free
      if (!Number.isFinite(threads) || disk.percent === null) return null
      return {
        cpu_percent: this.#cpu(),
        memory_percent: rounded((100 * used) / totalmem()),
        memory_used_mb: rounded(used / megabyte),
        memory_total_mb: rounded(totalmem() / megabyte),
        disk_percent: disk.percent,
        process_memory_mb: rounded(process.memoryUsage.rss() / megabyte),
        thread_count: threads,
        uptime_seconds: rounded(process.uptime()),
      }
    } catch {
      return null
    }
  }

  #cpu(): number {
    const now = ticksNow()
    if (now.atMs - this.#before.atMs < leastMs || now.all === this.#before.all) return this.#cpuPercent
    this.#cpuPercent = rounded((100 * (now.busy - this.#before.busy)) / (now.all - this.#before.all))
    this.#before = now
    return this.#cpuPercent
  }
}
