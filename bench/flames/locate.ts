import { readFileSync } from "node:fs"
import { SourceMap } from "node:module"
import { dirname, join, relative } from "node:path"
import { fileURLToPath } from "node:url"
import type { Locate } from "./profile.ts"

/** Finds where the code of bundles was written, by the maps beside them. */
export function locateIn(root: string): Locate {
  const maps = new Map<string, SourceMap | undefined>()
  const mapOf = (file: string) => {
    if (!maps.has(file)) maps.set(file, readMap(`${file}.map`))
    return maps.get(file)
  }
  return (url, line, column) => {
    if (!url.startsWith("file:")) return { file: url, line: line + 1 }
    const file = fileURLToPath(url)
    const entry = mapOf(file)?.findEntry(line, column)
    if (!entry || !("originalSource" in entry)) return { file: relative(root, file), line: line + 1 }
    const source = relative(root, join(dirname(file), entry.originalSource))
    return { file: source.slice(Math.max(0, source.indexOf("node_modules/"))), line: entry.originalLine + 1 }
  }
}

function readMap(file: string): SourceMap | undefined {
  try {
    return new SourceMap(JSON.parse(readFileSync(file, "utf8")) as ConstructorParameters<typeof SourceMap>[0])
  } catch {
    return undefined // a file that was not bundled
  }
}
