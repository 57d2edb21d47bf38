/**
 * `npm run sbom`: prints what is needed to run, of every platform, as CycloneDX. `npm sbom --omit=dev` would leave out what a
 * development package needs, too, such as zod: so it is asked of a lockfile that has no development packages.
 */
import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { root } from "./prepare.mjs"

const read = name => JSON.parse(readFileSync(join(root, name), "utf8"))
const { devDependencies: _, workspaces, ...manifest } = read("package.json")
const lock = read("package-lock.json")
delete lock.packages[""].devDependencies
delete lock.packages[""].workspaces
for (const [path, { dev, link }] of Object.entries(lock.packages))
  if (dev || link || workspaces.includes(path)) delete lock.packages[path]

const folder = mkdtempSync(join(tmpdir(), "starling-sbom-"))
try {
  // The document bears the folder's name.
  const named = join(folder, manifest.name)
  mkdirSync(named)
  writeFileSync(join(named, "package.json"), JSON.stringify(manifest))
  writeFileSync(join(named, "package-lock.json"), JSON.stringify(lock))
  execFileSync("npm", ["sbom", "--sbom-format=cyclonedx", "--package-lock-only"], { cwd: named, stdio: "inherit" })
} finally {
  rmSync(folder, { recursive: true, force: true })
}
