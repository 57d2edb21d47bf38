import { mkdir, readdir, rm, writeFile } from "node:fs/promises"
import { Session } from "node:inspector/promises"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { writeHeapSnapshot } from "node:v8"

export type Capture = { readonly kind: "profile"; readonly seconds: number } | { readonly kind: "heap" }

export const maxProfileSeconds = 60
/** The oldest are removed. */
const kept = 10

/** Takes profiles and heap snapshots of this process into a folder that only its user can read, one at a time. */
export class Captures {
  readonly #folder: string
  readonly #name: string
  #isTaking = false

  /** @param name of the process's place */
  constructor(folder: string, name: string) {
    this.#folder = folder
    this.#name = name
  }

  /** @returns the path of the file */
  async take(capture: Capture): Promise<string> {
    if (this.#isTaking) throw new Error("a capture is being taken")
    this.#isTaking = true
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 })
      await this.#removeOld()
      const name = `${this.#name}-${new Date().toISOString().replaceAll(/[:.]/g, "-")}`
      return capture.kind === "heap"
        ? writeHeapSnapshot(join(this.#folder, `${name}.heapsnapshot`))
        : await this.#profile(join(this.#folder, `${name}.cpuprofile`), capture.seconds)
    } finally {
      this.#isTaking = false
    }
  }

  async #profile(path: string, seconds: number): Promise<string> {
    const session = new Session()
    session.connect()
    try {
      await session.post("Profiler.enable")
      await session.post("Profiler.start")
      await sleep(Math.min(maxProfileSeconds, seconds) * 1000)
      const { profile } = await session.post("Profiler.stop")
      await writeFile(path, JSON.stringify(profile), { mode: 0o600 })
      return path
    } finally {
      session.disconnect()
    }
  }

  async #removeOld(): Promise<void> {
    const own = (await readdir(this.#folder)).filter(name => name.startsWith(`${this.#name}-`)).toSorted()
    for (const name of own.slice(0, Math.max(0, own.length - kept + 1))) await rm(join(this.#folder, name))
  }
}
