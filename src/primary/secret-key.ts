import { hkdfSync, randomBytes } from "node:crypto"
import { mkdir, readFile, rename, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { Config } from "../config.ts"
import type { Storage } from "../storage/storage.ts"

/**
 * The key under which secrets lie sealed in the database, in hex. Without SECRET_KEY it is made once and kept in DATA_DIR,
 * outside of what a backup of the database holds. Several hosts on one database need the same.
 */
export async function secretKeyOf(
  { secretKey, dataDir }: Pick<Config, "secretKey" | "dataDir">,
  { serverStatus }: Pick<Storage, "serverStatus">,
): Promise<string> {
  const path = join(dataDir, "secret.key")
  const text = secretKey ?? (await kept(path))
  const derived = (use: string, bytes: number) => Buffer.from(hkdfSync("sha256", text, "", `starling ${use}`, bytes))
  const known = await serverStatus.claimSecretKey(derived("key id", 8).toString("hex"))
  if (!known)
    throw new Error(
      `another secret key is in use with this database than ${secretKey === undefined ? `the one in ${path}` : "SECRET_KEY"}: give every host the same SECRET_KEY`,
    )
  return derived("key", 32).toString("hex")
}

async function kept(path: string): Promise<string> {
  const read = () =>
    readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error
    })
  const found = (await read())?.trim()
  if (found) return found
  const made = randomBytes(32).toString("hex")
  await mkdir(join(path, ".."), { recursive: true })
  // Whole or not at all, whatever happens meanwhile.
  await writeFile(`${path}.${process.pid}`, `${made}\n`, { mode: 0o600 })
  await rename(`${path}.${process.pid}`, path)
  return made
}
