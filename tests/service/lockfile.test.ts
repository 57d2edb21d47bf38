/** `npm ci` of every npm version takes the lockfile, so that modules are never installed without it. */
import { readFileSync } from "node:fs"
import { expect, test } from "vitest"

interface Entry {
  readonly version?: string
  readonly integrity?: string
  readonly os?: readonly string[]
  readonly dependencies?: Record<string, string>
  readonly optionalDependencies?: Record<string, string>
}

const { packages } = JSON.parse(readFileSync(new URL("../../package-lock.json", import.meta.url), "utf8")) as {
  packages: Record<string, Entry>
}

/** The entry that a module at `from` gets: the nearest folder above it has it. */
function found(from: string, name: string): string | undefined {
  for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf("node_modules/") - 1))) {
    const path = `${at === "" ? "" : `${at}/`}node_modules/${name}`
    if (packages[path]) return path
    if (at === "") return undefined
  }
}

test("the lockfile has an entry for every module that another asks for, optional ones of other platforms too", () => {
  const missing = Object.entries(packages).flatMap(([path, { dependencies, optionalDependencies }]) =>
    Object.keys({ ...dependencies, ...optionalDependencies })
      .filter(name => found(path, name) === undefined)
      .map(name => `${path} -> ${name}`),
  )
  expect(missing).toEqual([])
})

test("what is installed where the image is built has its hash", () => {
  const unsigned = Object.entries(packages).filter(
    ([path, { integrity, os }]) => path !== "" && integrity === undefined && (!os || os.includes("linux")),
  )
  // Their registry entries were not at hand when the lockfile was made: none is of a platform of the image.
  for (const [path] of unsigned) expect(path).toMatch(/linux-(arm$|arm-|ppc64|riscv64|s390x)|-musl/)
})
