/**
 * `node scripts/previous-version.mjs <commit>`: packs that commit, compiled, as the version before,
 * which the tests run beside this one (tests/process/two-versions.test.ts). To be run when a
 * version is released, so that the next is tried against it.
 */
import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { bundle } from "./bundle.mjs"

const root = fileURLToPath(new URL("..", import.meta.url))
const run = (command, args, options) => execFileSync(command, args, { cwd: root, maxBuffer: 1 << 28, ...options })

const [commit] = process.argv.slice(2)
if (!commit) {
  console.error("usage: node scripts/previous-version.mjs <commit>")
  process.exit(2)
}
const digest = run("git", ["rev-parse", "--verify", `${commit}^{commit}`], { encoding: "utf8" }).trim()
const folder = mkdtempSync(join(tmpdir(), "starling-previous-"))
try {
  const parts = ["src", "cluster.config.ts", "tsconfig.json", "package.json"]
  run("tar", ["-x", "-C", folder], { input: run("git", ["archive", digest, ...parts]) })
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"))

  const { dependencies } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"))
  const now = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).dependencies
  for (const [name, version] of Object.entries(dependencies))
    if (now[name] !== version) console.error(`it was made for ${name} ${version} and will run with ${now[name]}`)

  await bundle(folder, { packages: "outside", maps: false })
  writeFileSync(join(folder, "commit"), `${digest}\n`)

  const to = join(root, "tests", "fixtures", "previous-version")
  mkdirSync(to, { recursive: true })
  // The same commit makes the same bytes.
  const plain = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner"]
  const packed = run("tar", [...plain, "-C", folder, "-c", "commit", "package.json", "dist"])
  const zipped = run("gzip", ["-9", "-n"], { input: packed })
  writeFileSync(join(to, "previous-version.tgz"), zipped)
  console.log(`${digest.slice(0, 10)} is the version before: ${Math.ceil(zipped.length / 1024)} KiB`)
} finally {
  rmSync(folder, { recursive: true, force: true })
}
