/** `npm ci` of every npm version takes the lockfile, so that modules are never installed without it. */
import { execFile } from "node:child_process"
import { readFileSync } from "node:fs"
import { copyFile, mkdir, mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { expect, test } from "vitest"

interface Entry {
  readonly name?: string
  readonly version?: string
  readonly dev?: boolean
  /** Needed by tools, and by others only where it is there. */
  readonly devOptional?: boolean
  /** To a workspace. */
  readonly link?: boolean
  readonly integrity?: string
  readonly dependencies?: Record<string, string>
  readonly optionalDependencies?: Record<string, string>
  readonly peerDependencies?: Record<string, string>
  readonly peerDependenciesMeta?: Record<string, { optional?: boolean }>
}

const { packages } = JSON.parse(readFileSync(new URL("../../package-lock.json", import.meta.url), "utf8")) as {
  packages: Record<string, Entry>
}
/** What a registry has: neither this package nor its workspace. */
const modules = Object.entries(packages).filter(([path, { link }]) => path.includes("node_modules/") && !link)

/** The entry that a module at `from` gets: the nearest folder above it has it. */
function found(from: string, name: string): string | undefined {
  for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf("node_modules/") - 1))) {
    const path = `${at === "" ? "" : `${at}/`}node_modules/${name}`
    if (packages[path]) return path
    if (at === "") return undefined
  }
}

test("the lockfile has an entry for every module that another asks for, optional ones of other platforms too", () => {
  const missing = Object.entries(packages).flatMap(([path, { peerDependenciesMeta, ...entry }]) =>
    Object.keys({ ...entry.dependencies, ...entry.optionalDependencies, ...entry.peerDependencies })
      .filter(name => !peerDependenciesMeta?.[name]?.optional)
      .filter(name => found(path, name) === undefined)
      .map(name => `${path} -> ${name}`),
  )
  expect(missing).toEqual([])
})

test("every module has its hash, of whatever platform it is", () => {
  const unsigned = modules.filter(([, { integrity }]) => !integrity)
  expect(unsigned.map(([path]) => path)).toEqual([])
})

test("npm ci of this machine finds nothing missing in the lockfile", async ({ onTestFinished }) => {
  const folder = await scratch(onTestFinished, "package.json", "package-lock.json", "client/package.json")
  const { stdout } = await promisify(execFile)("npm", ["ci", "--dry-run", "--ignore-scripts", "--offline"], {
    cwd: folder,
    // Also where the tests were started by an npm that says nothing.
    env: { ...process.env, npm_config_loglevel: "notice" },
  })
  expect(stdout).toMatch(/added \d{3} packages/)
})

test("the bill of materials lists what is needed to run, of every platform, and nothing else", async () => {
  const cwd = fileURLToPath(new URL("../..", import.meta.url))
  const { stdout } = await promisify(execFile)("npm", ["run", "--silent", "sbom"], { cwd, maxBuffer: 1 << 24 })
  const { bomFormat, components } = JSON.parse(stdout) as {
    bomFormat: string
    components: { purl: string; hashes?: unknown[]; licenses?: unknown[] }[]
  }
  expect(bomFormat).toBe("CycloneDX")
  const needed = modules.filter(([, { dev, devOptional }]) => !dev && !devOptional)
  const nameOf = (path: string) => packages[path]!.name ?? path.slice(path.lastIndexOf("node_modules/") + 13)
  const wanted = needed.map(([path, { version }]) => `pkg:npm/${nameOf(path).replace("@", "%40")}@${version}`)
  expect(components.map(({ purl }) => purl).toSorted()).toEqual([...new Set(wanted)].toSorted())
  for (const { purl, hashes, licenses } of components)
    expect([purl, hashes?.length, licenses?.length]).toEqual([purl, 1, 1])
})

/** What runs before anything is installed. */
const starting = ["scripts/start.mjs", "scripts/prepare.mjs", "scripts/uwebsockets.mjs", "scripts/uwebsockets.sha256"]

test("without the lockfile nothing is installed, and the start says so", async ({ onTestFinished }) => {
  const folder = await scratch(onTestFinished, "package.json", ...starting)
  const started = promisify(execFile)(process.execPath, ["scripts/start.mjs"], { cwd: folder })
  await expect(started).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^package-lock\.json is missing/) as string,
  })
  expect(await readdir(folder)).not.toContain("node_modules")
})

async function scratch(atTheEnd: (end: () => Promise<void>) => void, ...files: string[]): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "starling-lockfile-"))
  atTheEnd(() => rm(folder, { recursive: true, force: true }))
  for (const file of files) {
    await mkdir(dirname(join(folder, file)), { recursive: true })
    await copyFile(new URL(`../../${file}`, import.meta.url), join(folder, file))
  }
  return folder
}
