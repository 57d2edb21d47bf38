/**
 * What the build mends in packages until they do it themselves: exact places of pinned versions, so
 * that a new version stops the build instead of going without.
 */
import { readFileSync } from "node:fs"

/** By the end of a module's path: what stands there once, and what takes its place. */
const places = {
  /**
   * postgres.js 3.4.9 (porsager/postgres#1154, #1208). What is written to a connection that has just
   * closed throws where nobody can catch it, and ends the process. And bytes that waited for their
   * turn when it closed stay, so that the next connection never sends its first message; what was
   * asked between an error and its close is never answered.
   */
  "postgres/src/connection.js": [
    [
      "  function nextWrite(fn) {\n",
      "  function nextWrite(fn) {\n    if (socket === null) {\n      chunk = nextWriteTimer = null\n      error(Errors.connection('CONNECTION_CLOSED', options, socket))\n      return false\n    }\n",
    ],
    [
      "    clearImmediate(nextWriteTimer)\n    socket.removeListener('data', data)\n    socket.removeListener('connect', connected)\n    idleTimer",
      "    clearImmediate(nextWriteTimer)\n    chunk = nextWriteTimer = null\n    socket.removeListener('data', data)\n    socket.removeListener('connect', connected)\n    idleTimer",
    ],
    ["    !hadError && (query || sent.length) && error(", "    ;(query || sent.length) && error("],
  ],
}

/** The packages of which something is mended, and the files: `package/file`. */
export const mendedFiles = Object.keys(places)

/** What a file of `mendedFiles` holds when it is mended. */
export function mended(file, path) {
  let contents = readFileSync(path, "utf8")
  for (const [from, to] of places[file]) {
    if (contents.split(from).length !== 2) throw new Error(`${path} is not what scripts/mended-packages.mjs mends`)
    contents = contents.replace(from, () => to)
  }
  return contents
}

export const mendedPackages = {
  name: "mended packages",
  setup({ onLoad }) {
    for (const file of mendedFiles)
      onLoad({ filter: new RegExp(`/node_modules/${file.replaceAll(".", "\\.")}$`) }, ({ path }) => ({
        contents: mended(file, path),
        loader: "js",
      }))
  },
}
