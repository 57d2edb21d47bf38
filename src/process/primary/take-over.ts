import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { birthOf } from "../../std/child-server.ts"

/** A primary that serves, as it says of itself in DATA_DIR. */
export interface Serving {
  readonly pid: number
  /** When it began: a pid alone is used again. */
  readonly birth: string
  readonly address: string
  readonly port: number
  /** Who its host is for the others. */
  readonly host: string
}

const fileIn = (dataDir: string) => join(dataDir, "primary.json")
const lookEveryMs = 100

const isAlive = async ({ pid, birth }: Serving): Promise<boolean> => (await birthOf(pid)) === birth

async function read(dataDir: string): Promise<Serving | undefined> {
  const text = await readFile(fileIn(dataDir), "utf8").catch(() => undefined)
  if (text === undefined) return undefined
  try {
    return JSON.parse(text) as Serving
  } catch {
    return undefined // cut off by a crash: its writer does not live
  }
}

/** The primary that serves from this folder now, if one does. */
export async function servingFrom(dataDir: string): Promise<Serving | undefined> {
  const found = await read(dataDir)
  return found && (await isAlive(found)) ? found : undefined
}

/**
 * Says that this process serves, where the folder can be written: without that it cannot be taken over from. @returns takes it
 * back, unless another one has said so since
 */
export async function noteServing(dataDir: string, of: Omit<Serving, "pid" | "birth">): Promise<() => Promise<void>> {
  const birth = await birthOf(process.pid)
  if (birth === undefined) return async () => {} // this system does not tell
  const path = fileIn(dataDir)
  const draft = `${path}.${process.pid}`
  try {
    await mkdir(dataDir, { recursive: true })
    await writeFile(draft, `${JSON.stringify({ pid: process.pid, birth, ...of } satisfies Serving)}\n`, { mode: 0o600 })
    await rename(draft, path)
  } catch {
    return async () => {}
  }
  return async () => {
    const found = await read(dataDir)
    if (found?.pid === process.pid && found.birth === birth) await rm(path, { force: true })
  }
}

/** Tells a primary that another serves in its place, and waits until it has ended. */
export async function endFormer(former: Serving): Promise<void> {
  try {
    process.kill(former.pid, "SIGQUIT")
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error
  }
  while (await isAlive(former)) await sleep(lookEveryMs)
}
