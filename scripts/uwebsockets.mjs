/**
 * The binaries of uWebSockets.js are run with all that the server may do, and come from a repack of
 * the official ones. `uwebsockets.sha256` says what each was when it was last looked at: one that
 * differs is neither built with nor started.
 */
import { createHash } from "node:crypto"
import { existsSync, readFileSync, readdirSync } from "node:fs"
import { join } from "node:path"

const list = new URL("uwebsockets.sha256", import.meta.url)

/** The file that uWebSockets.js loads here. */
export const ownBinary = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`

/** Names with the digest of each, in hexadecimal; what `sha256sum` writes, it reads. */
const known = () => {
  const lines = readFileSync(list, "utf8").trim().split("\n")
  return new Map(lines.map(line => line.split(/\s+\*?/)).map(([digest, name]) => [name, digest]))
}

/**
 * What is wrong with the binaries in a folder, in a sentence; undefined: nothing.
 * @param names those to look at; all when left out. One that is not there is no fault: loading it says so.
 */
export function faultOfBinaries(folder, names = binariesIn(folder)) {
  const digests = known()
  for (const name of names) {
    if (!existsSync(join(folder, name))) continue
    const found = createHash("sha256")
      .update(readFileSync(join(folder, name)))
      .digest("hex")
    if (digests.get(name) !== found)
      return (
        `${join(folder, name)} is not the file that scripts/uwebsockets.sha256 names: its SHA-256 is ${found}. ` +
        "Install the modules anew with `npm ci`. If you have changed the version of uWebSockets.js on purpose, " +
        "write the list anew: (cd node_modules/uWebSockets.js && sha256sum *.node) > scripts/uwebsockets.sha256"
      )
  }
  return undefined
}

const binariesIn = folder => (existsSync(folder) ? readdirSync(folder).filter(name => name.endsWith(".node")) : [])
