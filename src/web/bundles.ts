import { existsSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { fileURLToPath } from "node:url"
import type { Page } from "./pages.ts"

/** Scripts and styles that are made of `web/`, read when somebody first asks for a page. */
export function bundles(): () => Promise<Bundle> {
  let loading: Promise<Bundle> | undefined
  return () =>
    (loading ??= loadBundle().catch((error: unknown) => {
      loading = undefined
      throw error
    }))
}

export type BundledPage = "operator-login" | "operator" | "app"

export interface PageFiles {
  readonly script: string
  readonly style: string
  /** Scripts that come along with it. */
  readonly parts: readonly string[]
}
type Manifest = Readonly<Record<BundledPage, PageFiles>>
export interface Bundle {
  readonly manifest: Manifest
  readonly files: ReadonlyMap<string, Page>
}

/** As `scripts/bundle-pages.mjs` makes them. */
interface Made {
  readonly manifest: Manifest
  readonly files: Readonly<Record<string, Buffer>>
}

/** The build lays them beside this module; from source they are made now, with a tool that only the build needs. */
async function loadBundle(): Promise<Bundle> {
  const built = new URL("./built/", import.meta.url)
  const { manifest, files } = existsSync(built) ? await read(built) : await make()
  const pages = Object.entries(files).map(([name, body]) => [name, asset(name, body)] as const)
  return { manifest, files: new Map(pages) }
}

async function read(folder: URL): Promise<Made> {
  const manifest = JSON.parse(await readFile(new URL("manifest.json", folder), "utf8")) as Manifest
  const names = new Set(Object.values(manifest).flatMap(({ script, style, parts }) => [script, style, ...parts]))
  const files = await Promise.all([...names].map(async name => [name, await readFile(new URL(name, folder))] as const))
  return { manifest, files: Object.fromEntries(files) }
}

async function make(): Promise<Made> {
  // A name that is put together is not followed by the build.
  const script = new URL("../../scripts/bundle-pages.mjs", import.meta.url).href
  const { bundlePages } = (await import(script)) as { bundlePages: (root: string) => Promise<Made> }
  return bundlePages(fileURLToPath(new URL("../../", import.meta.url)))
}

const types: Readonly<Record<string, string>> = { js: "text/javascript", css: "text/css" }

const asset = (name: string, body: Buffer): Page => ({
  contentType: `${types[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream"}; charset=utf-8`,
  body,
  headers: { "Cache-Control": "public, max-age=31536000, immutable" },
  etag: `"${name}"`,
})
