import { hkdfSync, randomBytes } from "node:crypto"
import { link, mkdir, open, readFile, rm } from "node:fs/promises"
import { dirname, join } from "node:path"
import type { Config } from "../../config.ts"
import type { Storage } from "../../storage/storage.ts"

/** As of SECRET_KEY. */
const shortest = 32

/**
 * The key under which secrets lie sealed in the database, in hex. Without SECRET_KEY it is made once and kept in DATA_DIR,
 * outside of what a backup of the database holds. Several hosts on one database need the same.
 */
export async function secretKeyOf(
  { secretKey, dataDir }: Pick<Config, "secretKey" | "dataDir">,
  { serverStatus }: Pick<Storage, "serverStatus">,
): Promise<string> {
  const path = join(dataDir, "secret.key")
  const { text, isMade } = secretKey === undefined ? await kept(path) : { text: secretKey, isMade: false }
  const derived = (use: string, bytes: number) => Buffer.from(hkdfSync("sha256", text, "", `starling ${use}`, bytes))
  const known = await serverStatus.claimSecretKey(derived("key id", 8).toString("hex"))
  if (!known) {
    const given = secretKey === undefined ? `the one in ${path}` : "SECRET_KEY"
    throw new Error(
      `another secret key is in use with this database than ${given}${isMade ? ", which has just been made" : ""}: give every host the one of before; ` +
        "where it is lost, `npm run operator -- secret-key forget` allows another one",
    )
  }
  return derived("key", 32).toString("hex")
}

/** The key as it is given or kept, if there is one. */
export const givenKey = async ({
  secretKey,
  dataDir,
}: Pick<Config, "secretKey" | "dataDir">): Promise<string | undefined> =>
  secretKey ?? (await read(join(dataDir, "secret.key")))

/** Of a backup: the key that is in use from now on. Throws where there is another one. */
export async function keepKey(config: Pick<Config, "secretKey" | "dataDir">, key: string): Promise<void> {
  const path = join(config.dataDir, "secret.key")
  if ((await givenKey(config)) === undefined) await make(path, key)
  if ((await givenKey(config)) !== key)
    throw new Error(
      `the backup has another secret key than ${config.secretKey === undefined ? path : "SECRET_KEY"}: leave that out, so that the key of the backup is kept there`,
    )
}

async function kept(path: string): Promise<{ text: string; isMade: boolean }> {
  const found = await read(path)
  if (found !== undefined) return { text: found, isMade: false }
  const isMade = await make(path)
  return { text: (await read(path))!, isMade }
}

/** Undefined: there is none. What was cut short or emptied is nobody's key, and another would open nothing. */
async function read(path: string): Promise<string | undefined> {
  const content = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error
  })
  const text = content?.trim()
  if (text !== undefined && text.length < shortest)
    throw new Error(
      `${path} ${text === "" ? "is empty" : `holds less than ${shortest} characters`}, so it is no secret key: restore it, or remove it if it is lost`,
    )
  return text
}

/** Whole or not at all, whatever happens meanwhile, and never in the place of another. @returns false when somebody was faster */
async function make(path: string, text = randomBytes(32).toString("hex")): Promise<boolean> {
  const folder = dirname(path)
  await mkdir(folder, { recursive: true })
  // Of hosts that share the folder, each may have the same process id.
  const draft = `${path}.${randomBytes(8).toString("hex")}`
  try {
    await write(draft, `${text}\n`)
    await link(draft, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
    return false
  } finally {
    await rm(draft, { force: true })
  }
  // Its name is on the disk, too, before anything is sealed with it.
  const names = await open(folder, "r")
  try {
    await names.sync()
  } finally {
    await names.close()
  }
  return true
}

async function write(path: string, text: string): Promise<void> {
  const file = await open(path, "wx", 0o600)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
}
