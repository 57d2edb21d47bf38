/**
 * Makes what browsers load of web/: for each page a script and a style sheet, and parts that pages
 * share. Names tell the content, so that each file is fetched once and for all. `npm run build`
 * writes them to dist/; from source they are made when somebody first asks for a page.
 */
import { createHash } from "node:crypto"
import { readFile } from "node:fs/promises"
import { basename, join } from "node:path"
import { build } from "esbuild"
import { licensesOf } from "./licenses.mjs"

/** Each page, and where its code begins. */
const pages = {
  "operator-login": "web/operator/login.tsx",
  operator: "web/operator/dashboard.tsx",
  app: "web/app/main.tsx",
}

/** A script of its own: a service worker takes no parts. */
const worker = "web/app/offline/service-worker.ts"
const icons = {
  drawn: "web/app/icons/icon.svg",
  small: "web/app/icons/icon-192.png",
  large: "web/app/icons/icon-512.png",
}
const target = ["chrome125", "firefox128", "safari18"]

/**
 * @param root the folder that holds web
 * @returns the files by name, and for each page which of them it loads: `parts` come along with its script,
 *   `later` are those that it may ask for
 */
export async function bundlePages(root) {
  const { outputFiles, metafile } = await build({
    ...forBrowsers(root),
    entryPoints: pages,
    entryNames: "[name]-[hash]",
    chunkNames: "part-[hash]",
    splitting: true,
    format: "esm",
  })
  // What is only for Node is left out of pages.
  const inputs = Object.keys(metafile.inputs).filter(input => !input.startsWith("(disabled):"))
  // The contract gives types; what it checks with would be most of a page.
  const unwanted = inputs.filter(input => /node_modules\/zod\/|src\/contract\//.test(input))
  if (unwanted.length > 0) throw new Error(`pages may only take types from ${unwanted.join(", ")}`)

  const files = Object.fromEntries(outputFiles.map(({ path, contents }) => [basename(path), Buffer.from(contents)]))
  const made = Object.entries(metafile.outputs).filter(([, { entryPoint }]) => entryPoint !== undefined)
  const manifest = Object.fromEntries(
    Object.entries(pages).map(([name, entry]) => {
      const [script, { cssBundle, imports }] = made.find(([, { entryPoint }]) => entryPoint === entry)
      const parts = imports.filter(({ kind }) => kind === "import-statement").map(({ path }) => path)
      const later = reachable(metafile.outputs, script).filter(path => path !== script && !parts.includes(path))
      return [
        name,
        {
          script: basename(script),
          style: basename(cssBundle),
          parts: parts.map(path => basename(path)),
          later: later.map(path => basename(path)),
        },
      ]
    }),
  )
  const [background, pictures] = await Promise.all([bundleWorker(root), readIcons(root)])
  Object.assign(files, background.files, pictures.files)
  Object.assign(manifest.app, { worker: background.name, icons: pictures.names })
  return { files, manifest, inputs: [...inputs, ...background.inputs], licenses: licensesOf(root, inputs) }
}

const forBrowsers = root => ({
  absWorkingDir: root,
  outdir: "out",
  bundle: true,
  platform: "browser",
  target,
  tsconfig: join(root, "web", "tsconfig.json"),
  minify: true,
  legalComments: "none",
  metafile: true,
  write: false,
  logLevel: "warning",
})

async function bundleWorker(root) {
  const { outputFiles, metafile } = await build({
    ...forBrowsers(root),
    entryPoints: { "service-worker": worker },
    entryNames: "[name]-[hash]",
    format: "iife",
  })
  const [{ path, contents }] = outputFiles
  const name = basename(path)
  return { name, files: { [name]: Buffer.from(contents) }, inputs: Object.keys(metafile.inputs) }
}

async function readIcons(root) {
  const files = {}
  const names = {}
  for (const [icon, path] of Object.entries(icons)) {
    const bytes = await readFile(join(root, path))
    const hash = createHash("sha256").update(bytes).digest("hex").slice(0, 8)
    names[icon] = basename(path).replace(".", `-${hash}.`)
    files[names[icon]] = bytes
  }
  return { files, names }
}

/** What a script imports, and what that imports, at once or later. */
function reachable(outputs, script) {
  const found = new Set([script])
  for (const path of found) for (const { path: next, external } of outputs[path].imports) if (!external) found.add(next)
  return [...found]
}
