/**
 * Makes a fresh clone ready to run: modules, Redis, dist/. Each step looks first and does nothing
 * when there is nothing to do. It runs before anything is installed, so it imports nothing but
 * Node. Two runs at once wait for one another.
 */
import { spawn } from "node:child_process"
import { createHash } from "node:crypto"
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs"
import { homedir } from "node:os"
import { basename, delimiter, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { faultOfBinaries, ownBinary } from "./uwebsockets.mjs"

export const root = fileURLToPath(new URL("..", import.meta.url))
const at = (...path) => join(root, ...path)

/** What the user has to do; shown without a stack. */
export class Unprepared extends Error {}

/**
 * `redis`: whether one of this machine is needed. `tools`: those of development, too, which a build
 * needs in any case.
 */
export async function prepare({ redis, tools = false }) {
  checkNode()
  const isReady = () => buildIsCurrent() && modulesAreCurrent(tools)
  if (!isReady())
    await alone(async () => {
      if (isReady()) return
      if (!modulesAreCurrent(tools || !buildIsCurrent())) await installModules()
      if (!buildIsCurrent()) await build()
    })
  checkBinaries([ownBinary])
  if (redis && !findRedis()) await installRedis()
}

function checkNode() {
  const [major, minor] = process.versions.node.split(".").map(Number)
  if (major < 20 || (major === 20 && minor < 19))
    throw new Unprepared(`Starling needs Node 20.19 or later; this is ${process.versions.node}.`)
}

/**
 * By versions, not by dates: `npm install` writes the two files in either order, and `git` dates
 * what it checks out.
 */
function modulesAreCurrent(withTools) {
  const installed = readJson(at("node_modules", ".package-lock.json"))
  if (!installed) return false
  const wanted = readJson(at("package-lock.json"))
  if (!wanted) return false
  return Object.entries(wanted.packages).every(([path, { version, optional, peer, dev, link }]) => {
    // A workspace is here already, and nothing here asks for it by its name.
    if (link || !path.includes("node_modules/") || (dev && !withTools)) return true
    const found = installed.packages[path]
    return found ? found.version === version : Boolean(optional || peer)
  })
}

async function installModules() {
  // Without it npm would choose versions that nobody has tried and hashes that nobody has seen.
  if (!existsSync(at("package-lock.json")))
    throw new Unprepared("package-lock.json is missing: it says which modules are installed. Take it from the release.")
  say("installing modules; the first time takes a minute")
  // The tests and the build need the development modules, whatever NODE_ENV says. No module needs
  // its install script: binaries come prebuilt, and start-up repairs the links of PostgreSQL's.
  const options = ["--include=dev", "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts"]
  const code = await run("npm", ["ci", ...options])
  if (code !== 0) throw new Unprepared(`npm ci failed (code ${code}); its message stands above.`)
}

function findRedis() {
  const folders = (process.env.PATH ?? "").split(delimiter)
  folders.push("/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin", "/snap/bin")
  for (const folder of folders)
    for (const name of ["redis-server", "valkey-server"]) if (isProgram(join(folder, name))) return join(folder, name)
  return undefined
}

async function installRedis() {
  const apt = isOnPath("apt-get")
  // One that the system may start itself is not used.
  if (await installPackages(["redis-server"], () => findRedis() !== undefined)) return
  if (!apt && isOnPath("brew")) {
    say("installing redis with brew")
    await run("brew", ["install", "--quiet", "redis"])
  }
  if (findRedis()) return
  const command =
    (apt && "sudo apt-get install -y redis-server") ||
    (isOnPath("dnf") && "sudo dnf install -y valkey") ||
    (isOnPath("apk") && "sudo apk add redis") ||
    (isOnPath("pacman") && "sudo pacman -S valkey") ||
    "brew install redis"
  throw new Unprepared(
    "Starling needs redis-server or valkey-server, 6.2 or later. Install it with\n\n" +
      `    ${command}\n\nand start again; or set REDIS_URL to a Redis that is running.`,
  )
}

/**
 * Debian packages, for root: all at once, and one run at a time, as each run deletes what another has downloaded where the
 * machine is a container. `isThere` says whether they are needed still. Answers whether they are there.
 */
export async function installPackages(names, isThere) {
  if (isThere()) return true
  if (!isOnPath("apt-get") || process.getuid?.() !== 0) return false
  await alone(
    async () => {
      if (isThere()) return
      say(`installing ${names.join(", ")} with apt-get`)
      const options = { env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" } }
      // Another program of this machine may be installing, too.
      const words = ["-y", "-qq", "-o", "DPkg::Lock::Timeout=300", "--no-install-recommends"]
      const install = () => run("apt-get", ["install", ...words, ...names], { ...options, stdio: "ignore" })
      // The lists of a container image are usually gone, so the first try fails at once.
      for (let tries = 0; tries < 3 && (await install()) !== 0; tries++)
        await run("apt-get", ["update", "-qq"], { ...options, stdio: "ignore" })
    },
    at(".data", "packages.lock"),
  )
  return isThere()
}

/** Of the object store that tests run against. */
const objectStore = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"

/**
 * Builds it with Go, once for each version and machine. That takes a core for three minutes: beside whatever else runs it takes
 * what is left over. Answers its path; undefined where there is no Go.
 */
export async function buildObjectStore() {
  const caches = process.env.XDG_CACHE_HOME || join(homedir(), ".cache")
  const folder = join(caches, "starling", basename(objectStore))
  const path = join(folder, "versitygw")
  const isBuilt = () => isProgram(path)
  if (isBuilt() || !isOnPath("go")) return isBuilt() ? path : undefined
  mkdirSync(folder, { recursive: true })
  await alone(
    async () => {
      if (isBuilt()) return
      say("building the object store for the tests, in the background")
      const env = { ...process.env, GOBIN: join(folder, "new"), GOFLAGS: "-p=1", GOMAXPROCS: "1" }
      await run("nice", ["-n", "19", "go", "install", objectStore], {
        env,
        stdio: ["ignore", "ignore", "inherit"],
        endsWithUs: true,
      })
      // Whole or not at all.
      if (isProgram(join(folder, "new", "versitygw"))) renameSync(join(folder, "new", "versitygw"), path)
    },
    join(folder, "lock"),
  )
  return isBuilt() ? path : undefined
}

const built = at("dist", ".built")

function buildIsCurrent() {
  return existsSync(built) && readFileSync(built, "utf8") === fingerprint()
}

/** @param names those to look at: all when left out */
function checkBinaries(names) {
  const fault = faultOfBinaries(at("node_modules", "uWebSockets.js"), names)
  if (fault !== undefined) throw new Unprepared(fault)
}

async function build() {
  say("building dist/")
  checkBinaries()
  const now = fingerprint()
  // It stands on a module that may just have been installed.
  const { bundle } = await import("./bundle.mjs")
  await bundle(root).catch(error => {
    throw new Unprepared(`dist/ could not be built: ${error.message}`)
  })
  writeFileSync(built, now)
}

/**
 * Names and contents of everything that dist/ is made from: a copy elsewhere is as current, and a
 * file that has gone is a change, too.
 */
function fingerprint() {
  const hash = createHash("sha256")
  const scripts = ["bundle", "bundle-pages", "licenses"].map(name => `scripts/${name}.mjs`)
  // Of the client without what is made of it, and is gone again, while it is packed.
  const client = filesBelow("client").filter(path => !/^client.(?:dist\b|LICENSE$)/.test(path))
  const sources = [...filesBelow("src"), ...filesBelow("web"), ...client]
  const files = ["package-lock.json", "tsconfig.json", "cluster.config.ts", ...scripts, ...sources]
  for (const file of files) {
    if (!existsSync(at(file))) continue
    const content = readFileSync(at(file))
    hash.update(`${file} ${content.length}\n`).update(content)
  }
  return hash.digest("hex")
}

function filesBelow(folder) {
  const entries = existsSync(at(folder)) ? readdirSync(at(folder), { withFileTypes: true }) : []
  return entries.flatMap(entry => {
    const path = join(folder, entry.name)
    return entry.isDirectory() ? filesBelow(path) : [path]
  })
}

/**
 * One preparation at a time. The holder dates its lock every second, so a lock that was left behind
 * is seen by its age.
 */
export async function alone(work, lock = at(".data", "prepare.lock")) {
  try {
    accessSync(root, constants.W_OK)
    mkdirSync(dirname(lock), { recursive: true })
  } catch (error) {
    throw new Unprepared(`${root} has to be prepared first, and this user may not write there (${error.code}).`)
  }
  for (let told = false; !take(lock); await pause(200)) {
    if (!told) say("waiting for another run that prepares this folder")
    told = true
    if (isLeftBehind(lock)) rmSync(lock, { force: true })
  }
  const beat = setInterval(() => utimesSync(lock, new Date(), new Date()), 1_000)
  try {
    return await work()
  } finally {
    clearInterval(beat)
    rmSync(lock, { force: true })
  }
}

function take(lock) {
  try {
    writeFileSync(lock, String(process.pid), { flag: "wx" })
    return true
  } catch (error) {
    if (error.code === "EEXIST") return false
    throw error
  }
}

function isLeftBehind(lock) {
  try {
    if (Date.now() - statSync(lock).mtimeMs > 15_000) return true
    const pid = Number(readFileSync(lock, "utf8"))
    if (pid > 0) process.kill(pid, 0)
    return false
  } catch (error) {
    return error.code === "ESRCH"
  }
}

/**
 * Runs to the end and resolves with the exit code. Not the synchronous kind, which would stop the
 * lock's clock.
 */
function run(command, args, { endsWithUs = false, ...options } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, stdio: ["ignore", "inherit", "inherit"], ...options })
    if (endsWithUs) process.once("exit", () => child.kill())
    child.on("error", cause => reject(new Unprepared(`${command} could not be started: ${cause.message}`)))
    child.on("close", (code, signal) => resolve(code ?? signal))
  })
}

export function isOnPath(name) {
  return (process.env.PATH ?? "").split(delimiter).some(folder => isProgram(join(folder, name)))
}

function isProgram(path) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

function readJson(path) {
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : undefined
}

function pause(milliseconds) {
  return new Promise(resolve => setTimeout(resolve, milliseconds))
}

function say(text) {
  console.log(`starling: ${text}`)
}
