import { randomBytes } from "node:crypto"
import { existsSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { fileURLToPath } from "node:url"
import { escaped } from "./gateway-page.ts"
import type { Page, PageSource } from "./pages.ts"

let loading: Promise<Bundle> | undefined

/** Scripts and styles that are made of `web/`, for all pages: read once, when somebody first asks for a page. */
const load = (): Promise<Bundle> =>
  (loading ??= loadBundle().catch((error: unknown) => {
    loading = undefined
    throw error
  }))

/** Of any page: names tell the content. */
export const bundledAsset: PageSource = async path => (await load()).files.get(path.slice(path.lastIndexOf("/") + 1))

/** The files of a page, by what they are for. */
export const bundledFiles = async (page: BundledPage): Promise<PageFiles> => (await load()).manifest[page]
/** One of them. */
export const bundledFile = async (name: string): Promise<Buffer> => (await load()).files.get(name)!.body

/** What a person chose is there before the first frame is drawn. */
const themeFirst = `const t = localStorage.getItem("starling.theme")
if (t === "light" || t === "dark") document.documentElement.dataset.theme = t`

interface DocumentOptions {
  readonly page: BundledPage
  readonly serverName: string
  /** As the tab shows it. */
  readonly title: string
  /** Where the files are, as the document names it. */
  readonly assets: string
  readonly viewport: string
  /** More elements of its head. */
  readonly head: readonly string[]
  /** For who has no JavaScript, beside that it is needed. */
  readonly otherWays?: string
  readonly headers: (nonce: string) => Readonly<Record<string, string>>
  /** More that its script is told, as `data-` attributes. */
  readonly told?: Readonly<Record<string, string>>
  /** Has a manifest and icons, at this address. */
  readonly manifest?: string
}

/** The document of a page, made for each answer, with a nonce of its own. */
export function bundledDocument(options: DocumentOptions): PageSource {
  const { page, serverName, title, assets, viewport, head, otherWays, headers, told = {}, manifest } = options
  return async () => {
    const { script, style, parts, icons } = (await load()).manifest[page]
    const nonce = randomBytes(16).toString("base64")
    const preloads = parts.map(part => `<link rel="modulepreload" nonce="${nonce}" href="${assets}/${part}">\n`)
    const body = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="${viewport}">
${head.join("\n")}
<title>${escaped(title)}</title>
${icons && manifest !== undefined ? installable(manifest, assets, icons) : '<link rel="icon" href="data:,">'}
<script nonce="${nonce}">${themeFirst}</script>
<link rel="stylesheet" href="${assets}/${style}">
${preloads.join("")}<script type="module" nonce="${nonce}" src="${assets}/${script}"></script>
</head>
<body data-server="${escaped(serverName)}"${attributes(told)}>
<div id="page"></div>
<noscript>This page needs JavaScript.${otherWays === undefined ? "" : ` ${otherWays}`}</noscript>
</body>
</html>
`
    return {
      contentType: "text/html; charset=utf-8",
      body: Buffer.from(body),
      headers: headers(nonce),
      etag: `"${nonce}"`,
    }
  }
}

const installable = (
  manifest: string,
  assets: string,
  icons: NonNullable<PageFiles["icons"]>,
) => `<link rel="icon" href="${assets}/${icons.drawn}" type="image/svg+xml">
<link rel="apple-touch-icon" href="${assets}/${icons.small}">
<link rel="manifest" href="${manifest}">`

const attributes = (told: Readonly<Record<string, string>>): string =>
  Object.entries(told)
    .map(([name, value]) => ` data-${name}="${escaped(value)}"`)
    .join("")

type BundledPage = "operator-login" | "operator" | "app"

interface PageFiles {
  readonly script: string
  readonly style: string
  /** Scripts that come along with it. */
  readonly parts: readonly string[]
  /** Scripts that it may ask for. */
  readonly later: readonly string[]
  /** Of the page to chat alone. */
  readonly worker?: string
  readonly icons?: Readonly<Record<"drawn" | "small" | "large", string>>
}
type Manifest = Readonly<Record<BundledPage, PageFiles>>
interface Bundle {
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
  const names = new Set(
    Object.values(manifest).flatMap(({ script, style, parts, later, worker, icons = {} }) => [
      script,
      style,
      ...parts,
      ...later,
      ...(worker === undefined ? [] : [worker]),
      ...Object.values(icons),
    ]),
  )
  const files = await Promise.all([...names].map(async name => [name, await readFile(new URL(name, folder))] as const))
  return { manifest, files: Object.fromEntries(files) }
}

async function make(): Promise<Made> {
  // A name that is put together is not followed by the build.
  const script = new URL("../../scripts/bundle-pages.mjs", import.meta.url).href
  const { bundlePages } = (await import(script)) as { bundlePages: (root: string) => Promise<Made> }
  return bundlePages(fileURLToPath(new URL("../../", import.meta.url)))
}

const types: Readonly<Record<string, string>> = {
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
  png: "image/png",
}

const asset = (name: string, body: Buffer): Page => ({
  contentType: types[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream",
  body,
  headers: { "Cache-Control": "public, max-age=31536000, immutable" },
  etag: `"${name}"`,
})
