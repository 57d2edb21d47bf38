import { readFileSync } from "node:fs"
import { SourceMap } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const maps = new Map<string, SourceMap | undefined>()

/**
 * A stack that names lines of the sources, not those of the files that were made of them. The map
 * of such a file lies beside it and is read when the first stack that leads through it is logged:
 * Node's own `--enable-source-maps` reads every map at the start of every process.
 */
export const inSource = (stack: string | undefined): string | undefined =>
  stack?.replaceAll(
    /(file:\/\/[^\s()]+\/dist\/[^\s()]+\.js):(\d+):(\d+)/g,
    (made, file: string, line: string, column: string) => {
      const path = fileURLToPath(file)
      if (!maps.has(path)) maps.set(path, readMap(path))
      const found = maps.get(path)?.findEntry(Number(line) - 1, Number(column) - 1)
      if (!found || !("originalSource" in found)) return made
      return `${join(dirname(path), found.originalSource)}:${found.originalLine + 1}:${found.originalColumn + 1}`
    },
  )

function readMap(path: string): SourceMap | undefined {
  try {
    return new SourceMap(JSON.parse(readFileSync(`${path}.map`, "utf8")))
  } catch {
    return undefined // made without maps
  }
}
