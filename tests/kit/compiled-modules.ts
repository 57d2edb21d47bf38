/**
 * Compiles what tests import before they run, so that their processes load plain modules, as Node.js does. What is left to vitest are the
 * test files themselves: what it makes of a module each process fetches from the main one, and every use of an import there calls a getter.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join, relative, resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { build, type Plugin as CompilerPlugin } from "esbuild"
import type { Plugin } from "vitest/config"
// @ts-expect-error: plain JavaScript
import * as mending from "../../scripts/mended-packages.mjs"

const root = resolve(import.meta.dirname, "../..")
const folders = ["src", "client", "bench", "demo", "tests"]
const isModule = (path: string) =>
  path.endsWith(".ts") && !/\.(?:test|d)\.ts$/.test(path) && !path.startsWith("tests/fixtures/")

/** Each module stays one; where it asks for its place it is told that of its source, beside which other files lie. */
const ownPlaces: CompilerPlugin = {
  name: "own places",
  setup({ onLoad, onResolve }) {
    onLoad({ filter: /\.ts$/ }, ({ path }) => ({
      loader: "ts",
      contents: readFileSync(path, "utf8")
        .replaceAll(/\bimport\.meta\.url\b/g, JSON.stringify(pathToFileURL(path).href))
        .replaceAll(/\bimport\.meta\.dirname\b/g, JSON.stringify(dirname(path))),
    }))
    onResolve({ filter: /./ }, ({ path, kind, resolveDir }) => {
      if (kind === "entry-point") return undefined
      if (!path.startsWith(".")) return { path, external: true }
      // What needs no compiler stays where it is.
      return { path: path.endsWith(".ts") ? path.replace(/ts$/, "js") : join(resolveDir, path), external: true }
    })
  },
}

export interface CompiledModules {
  /** Leads test files to what was compiled. */
  readonly plugin: Plugin
  /** The files that vitest leaves to Node.js. */
  readonly external: RegExp
}

const { mendedFiles, mended } = mending as {
  readonly mendedFiles: readonly string[]
  readonly mended: (file: string, path: string) => string
}

const copied = new Set(mendedFiles.map(file => file.slice(0, file.indexOf("/"))))

const entryOf = (name: string): string => {
  const text = readFileSync(join(root, "node_modules", name, "package.json"), "utf8")
  return (JSON.parse(text) as { exports: { import: string } }).exports.import
}

/** All packages as they are installed, but for those that the build mends: they are mended here as well. */
function placePackages(folder: string): void {
  const installed = join(root, "node_modules")
  mkdirSync(folder)
  for (const name of readdirSync(installed))
    if (copied.has(name)) cpSync(join(installed, name), join(folder, name), { recursive: true })
    else symlinkSync(join(installed, name), join(folder, name))
  for (const file of mendedFiles) writeFileSync(join(folder, file), mended(file, join(installed, file)))
}

/** They are gone when this process ends. */
export async function compileModules(): Promise<CompiledModules> {
  const folder = mkdtempSync(join(tmpdir(), "starling-modules-"))
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }))
  placePackages(join(folder, "node_modules"))
  const below = (name: string) => readdirSync(join(root, name), { recursive: true, encoding: "utf8" })
  const found = folders.flatMap(name => below(name).map(path => join(name, path)))
  const modules = new Set(["cluster.config.ts", ...found.filter(isModule)])
  await build({
    absWorkingDir: root,
    entryPoints: [...modules],
    outdir: folder,
    outbase: root,
    bundle: true,
    treeShaking: false,
    format: "esm",
    platform: "node",
    target: "node20.19",
    sourcemap: "linked",
    plugins: [ownPlaces],
    logLevel: "warning",
  })
  return {
    external: new RegExp(`^${folder}/`),
    plugin: {
      name: "compiled modules",
      enforce: "pre",
      resolveId(source, importer) {
        // One copy for all: classes of its errors are compared.
        if (copied.has(source)) return join(folder, "node_modules", source, entryOf(source))
        const path = source.startsWith(".") && importer ? resolve(dirname(importer), source) : source
        const own = relative(root, path)
        return modules.has(own) ? join(folder, own.replace(/\.ts$/, ".js")) : undefined
      },
    },
  }
}
