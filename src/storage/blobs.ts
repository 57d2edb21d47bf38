import { mkdir, open, readFile, rename, rm, unlink } from "node:fs/promises"
import { dirname, join } from "node:path"
import type { Snowflake } from "../contract/fields.ts"

/** Files, by keys that are made here of ids. Whoever keeps them elsewhere, such as in S3, does these three. */
export interface Blobs {
  /** Resolves once a crash of the machine would not lose it. A key is never used twice. */
  put(key: string, bytes: Uint8Array): Promise<void>
  get(key: string): Promise<Buffer<ArrayBuffer> | undefined>
  /** What is not there is done. A key that ends in `/` stands for everything below it. */
  delete(key: string): Promise<void>
}

/** A file of a server's. `file`: 32 hex digits that nobody chose. */
export const serverFile = (server: Snowflake, file: string): string => serverFiles(server) + file
/** All of them. */
export const serverFiles = (server: Snowflake): string => `servers/${server}/`

const keyShape = /^servers\/[1-9]\d{0,18}\/(?:[0-9a-f]{32})?$/
export const isBlobKey = (key: string): boolean => keyShape.test(key)

/** Keeps them below a folder, which is the same for all hosts. */
export function openLocalBlobs(folder: string): Blobs {
  const pathOf = (key: string): string => {
    if (!isBlobKey(key)) throw new Error(`${JSON.stringify(key)} is no key of a file`)
    return join(folder, key)
  }

  return {
    async put(key, bytes) {
      const path = pathOf(key)
      try {
        await write(path, bytes)
      } catch (error) {
        // The folder may go with another file while this one comes.
        if (codeOf(error) !== "ENOENT") throw error
        await write(path, bytes)
      }
    },

    async get(key) {
      try {
        return await readFile(pathOf(key))
      } catch (error) {
        if (codeOf(error) === "ENOENT") return undefined
        throw error
      }
    },

    async delete(key) {
      const path = pathOf(key)
      if (key.endsWith("/")) return rm(path, { recursive: true, force: true, maxRetries: 3 })
      for (const one of [path, unfinished(path)])
        await unlink(one).catch((error: unknown) => {
          if (codeOf(error) !== "ENOENT") throw error
        })
    },
  }
}

const unfinished = (path: string) => `${path}.part`

/** Whole or not at all under its name, whatever ends in between. */
async function write(path: string, bytes: Uint8Array): Promise<void> {
  const made = await mkdir(dirname(path), { recursive: true })
  const file = await open(unfinished(path), "w", 0o640)
  try {
    await file.writeFile(bytes)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(unfinished(path), path)
  await sync(dirname(path))
  if (made !== undefined) await sync(dirname(made))
}

/** Names are kept by their folder. */
async function sync(folder: string): Promise<void> {
  const handle = await open(folder, "r")
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code
