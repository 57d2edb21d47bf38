/**
 * `node scripts/previous-version.mjs <commit>`: packs that commit, compiled, as the version before, which the tests run beside
 * this one (tests/two-versions.test.ts). To be run when a version is released, so that the next is tried against it.
 */
import { execFileSync } from "node:child_process"
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))
const run = (command, args, options) => execFileSync(command, args, { cwd: root, maxBuffer: 1 << 28, ...options })

const [commit] = process.argv.slice(2)
if (!commit) {
  console.error("usage: node scripts/previous-version.mjs <commit>")
  process.exit(2)
}
const digest = run("git", ["rev-parse", "--verify", `${commit}^{commit}`])
  .toString()
  .trim()
const folder = mkdtempSync(join(tmpdir(), "starling-previous-"))
try {
  const parts = ["src", "cluster.config.ts", "tsconfig.json", "tsconfig.build.json", "package.json"]
  run("tar", ["-x", "-C", folder], { input: run("git", ["archive", digest, ...parts]) })
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"))

  const { dependencies } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"))
  const now = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).dependencies
  for (const [name, version] of Object.entries(dependencies))
    if (now[name] !== version) console.error(`it was made for ${name} ${version} and will run with ${now[name]}`)

  const compiler = join(root, "node_modules", "typescript", "bin", "tsc")
  const options = ["-p", join(folder, "tsconfig.build.json"), "--sourceMap", "false", "--incremental", "false"]
  // `--incremental false` refuses the file that the configuration names.
  run(process.execPath, [compiler, ...options, "--tsBuildInfoFile", "null"], { cwd: folder, stdio: "inherit" })
  // SQL and Lua lie beside the code that reads them; tsc leaves them behind.
  for (const file of readdirSync(join(folder, "src"), { recursive: true })) {
    const from = join(folder, "src", file)
    if (/\.tsx?$/.test(file) || statSync(from).isDirectory()) continue
    const to = join(folder, "dist", "src", file)
    mkdirSync(dirname(to), { recursive: true })
    copyFileSync(from, to)
  }
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
