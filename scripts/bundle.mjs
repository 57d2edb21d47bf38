/**
 * Makes dist/src of src: what each kind of process loads lies together in few files, because
 * finding and reading hundreds of modules is most of what a start costs. Types are looked at
 * elsewhere (`npm run types`).
 */
import { execFileSync } from "node:child_process"
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs"
import { createRequire } from "node:module"
import { dirname, join, relative } from "node:path"
import { build } from "esbuild"
import { bundlePages } from "./bundle-pages.mjs"
import { licensesOf } from "./licenses.mjs"
import { mendedPackages } from "./mended-packages.mjs"

/** They bring binaries, or files that are read by name. */
export const apart = ["uWebSockets.js", "sharp", "argon2"]
/**
 * What `src/web` serves of packages that only the build needs: it is copied beside that code, with
 * its licenses.
 */
export const vendored = {
  "redoc.standalone.js": "redoc/bundles/redoc.standalone.js",
  "redoc.LICENSE": "redoc/LICENSE",
  "swagger-ui-bundle.js": "swagger-ui-dist/swagger-ui-bundle.js",
  "swagger-ui.css": "swagger-ui-dist/swagger-ui.css",
  "oauth2-redirect.js": "swagger-ui-dist/oauth2-redirect.js",
  "swagger-ui.LICENSE": "swagger-ui-dist/LICENSE",
  "swagger-ui.NOTICE": "swagger-ui-dist/NOTICE",
}
/** Packages for CommonJS ask for others, and for Node's own modules, by `require`. */
const banner = `import { createRequire as makeRequire } from "node:module"; const require = makeRequire(import.meta.url);`

/** The code of threads, which are started by the name of their file: each lies where its source does. */
const threads = ["src/integrations/text-thread.ts"]

/**
 * @param root the folder that holds src
 * @param packages `within` the files, or left where they are: `outside`
 * @param entryPoints what is loaded by its name; each has to come to lie in dist/src itself
 */
export async function bundle(
  root,
  {
    packages = "within",
    maps = true,
    // Versions before have no threads.
    entryPoints = ["src/main.ts", "src/operator.ts", ...threads.filter(file => existsSync(join(root, file)))],
  } = {},
) {
  const src = join(root, "src")
  const out = join(root, "dist", "src")
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints,
    outdir: out,
    outbase: "src",
    chunkNames: "[name]-[hash]",
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    mainFields: ["module", "main"],
    target: "node20.19",
    sourcemap: maps,
    sourcesContent: false,
    banner: { js: banner },
    ...(packages === "within" ? { external: apart } : { packages: "external" }),
    plugins: [ownPlaces(src), mendedPackages],
    define: { STARLING_RELEASE: JSON.stringify(releaseOf(root)) },
    metafile: true,
    write: false,
    logLevel: "warning",
  })
  mkdirSync(out, { recursive: true })
  // What is named by its content first, the entries that name it last. What the entries before
  // named stays for one build more: a process that has read them may not have asked for the rest
  // yet.
  const isEntry = ({ path }) => /^(main|operator|integrations\/text-thread)\.js$/.test(relative(out, path))
  for (const { path, contents } of outputFiles.toSorted((one, other) => isEntry(one) - isEntry(other))) {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(`${path}.new`, contents)
    renameSync(`${path}.new`, path)
  }
  const wanted = new Set(outputFiles.map(({ path }) => relative(out, path)))
  // SQL and Lua lie beside the code that reads them.
  for (const file of filesBelow(src)) {
    if (file.endsWith(".ts")) continue
    wanted.add(file)
    mkdirSync(dirname(join(out, file)), { recursive: true })
    copyFileSync(join(src, file), join(out, file))
  }
  for (const [name, file] of Object.entries(vendored)) {
    const copy = join("web", "vendor", name)
    wanted.add(copy)
    mkdirSync(dirname(join(out, copy)), { recursive: true })
    copyFileSync(createRequire(import.meta.url).resolve(file), join(out, copy))
  }
  wanted.add("LICENSES")
  writeFileSync(join(out, "LICENSES"), licensesOf(root, Object.keys(metafile.inputs)))
  // Versions before have no pages of their own.
  if (existsSync(join(root, "web"))) {
    const { files, manifest, licenses } = await bundlePages(root)
    const built = { ...files, "manifest.json": JSON.stringify(manifest), LICENSES: licenses }
    mkdirSync(join(out, "web", "built"), { recursive: true })
    for (const [name, content] of Object.entries(built)) {
      const copy = join("web", "built", name)
      wanted.add(copy)
      writeFileSync(join(out, copy), content)
    }
  }
  const list = join(root, "dist", ".files")
  const before = existsSync(list) ? new Set(readFileSync(list, "utf8").split("\n")) : new Set()
  writeFileSync(list, [...wanted].join("\n"))
  // A migration that was renamed must not run twice.
  const mayStay = file => before.has(file) && /\.js(\.map)?$/.test(file)
  for (const file of filesBelow(out)) if (!wanted.has(file) && !mayStay(file)) rmSync(join(out, file))
}

/** The package's version, and the commit: COMMIT where the sources come without git, as into an image. */
function releaseOf(root) {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
  return { version, commit: process.env.COMMIT || commitOf(root) || "unknown" }
}

/** Undefined: no commit of this folder is known. What differs from the commit is not that commit. */
function commitOf(root) {
  const git = (...words) =>
    execFileSync("git", ["-C", root, ...words], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim()
  try {
    // Of another repository around it, as in a checkout within a checkout, it says nothing.
    if (git("rev-parse", "--show-prefix") !== "") return undefined
    const isChanged = git("status", "--porcelain", "--untracked-files=no") !== ""
    return `${git("rev-parse", "--short=12", "HEAD")}${isChanged ? "-changed" : ""}`
  } catch {
    return undefined
  }
}

/**
 * A file that looks for others beside itself still finds them: they keep their places, only the
 * code has moved.
 */
const ownPlaces = src => ({
  name: "own places",
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const text = readFileSync(path, "utf8")
      if (/import\.meta\.(?!url\b)/.test(text)) throw new Error(`${path} may ask import.meta for nothing but its url`)
      if (!text.includes("import.meta.url")) return undefined
      const place = `new URL(${JSON.stringify(`./${relative(src, path)}`)}, import.meta.url).href`
      return { loader: "ts", contents: text.replaceAll("import.meta.url", place) }
    })
  },
})

const filesBelow = folder =>
  readdirSync(folder, { recursive: true }).filter(file => statSync(join(folder, file)).isFile())
