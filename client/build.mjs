/**
 * Makes `dist/` of the sources for `npm pack`: modules, and types that name them as they are called there; the license comes
 * beside it. `--clean` takes both away.
 */
import { execFileSync } from "node:child_process"
import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const here = dirname(fileURLToPath(import.meta.url))
const dist = join(here, "dist")
const license = join(here, "LICENSE")
for (const made of [dist, license]) rmSync(made, { recursive: true, force: true })
if (process.argv.includes("--clean")) process.exit(0)
copyFileSync(join(here, "..", "LICENSE"), license)
const typescript = dirname(createRequire(import.meta.url).resolve("typescript/package.json"))
execFileSync(process.execPath, [join(typescript, "bin", "tsc"), "-p", here], { stdio: "inherit" })
for (const name of readdirSync(dist).filter(name => name.endsWith(".d.ts"))) {
  const text = readFileSync(join(dist, name), "utf8")
  writeFileSync(join(dist, name), text.replaceAll(/(from|import\() ?"(\.\/[\w-]+)\.ts"/g, '$1 "$2.js"'))
}
