import { randomBytes } from "node:crypto"
import { existsSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { fileURLToPath } from "node:url"
import { escaped } from "./gateway-page.ts"
import type { Page, Pages, PageSource } from "./pages.ts"

/**
 * The operator's page. Its scripts and styles are made of `web/`, and read when somebody first asks
 * for one of them. The document is made for each answer, with a nonce of its own, and nobody keeps
 * it; the files have names that tell their content, and are kept for good.
 */
export function operatorPages({ serverName }: { serverName: string }): Pages {
  let loading: Promise<Bundle> | undefined
  const load = () =>
    (loading ??= loadBundle().catch((error: unknown) => {
      loading = undefined
      throw error
    }))
  const html =
    (name: PageName, title: string): PageSource =>
    async () =>
      document((await load()).manifest[name], { title, serverName })
  return {
    operatorLogin: html("operator-login", "Sign in"),
    operatorDashboard: html("operator", "Operators"),
    operatorAssets: async path => (await load()).files.get(path.slice(path.lastIndexOf("/") + 1)),
  }
}

type PageName = "operator-login" | "operator"

interface PageFiles {
  readonly script: string
  readonly style: string
  /** Scripts that come along with it. */
  readonly parts: readonly string[]
}
type Manifest = Readonly<Record<PageName, PageFiles>>
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

const contentSecurityPolicy = (nonce: string) =>
  [
    "default-src 'self'",
    `script-src 'self' 'nonce-${nonce}'`,
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'self'",
    "form-action 'self'",
  ].join("; ")

/** What a person chose is there before the first frame is drawn. */
const themeFirst = `const t = localStorage.getItem("starling.theme")
if (t === "light" || t === "dark") document.documentElement.dataset.theme = t`

function document(
  { script, style, parts }: PageFiles,
  { title, serverName }: { title: string; serverName: string },
): Page {
  const nonce = randomBytes(16).toString("base64")
  // Text is the only thing that a script may make of what it was sent.
  const body = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="require-trusted-types-for 'script'; trusted-types 'none'">
<title>${escaped(title)} · ${escaped(serverName)}</title>
<link rel="icon" href="data:,">
<script nonce="${nonce}">${themeFirst}</script>
<link rel="stylesheet" href="assets/${style}">
${parts.map(part => `<link rel="modulepreload" nonce="${nonce}" href="assets/${part}">\n`).join("")}<script type="module" nonce="${nonce}" src="assets/${script}"></script>
</head>
<body data-server="${escaped(serverName)}">
<div id="page"></div>
<noscript>This page needs JavaScript. Operators can also use the command line.</noscript>
</body>
</html>
`
  return {
    contentType: "text/html; charset=utf-8",
    body: Buffer.from(body),
    headers: {
      "Cache-Control": "no-store, no-cache, must-revalidate, max-age=0, private",
      Pragma: "no-cache",
      Expires: "0",
      "Content-Security-Policy": contentSecurityPolicy(nonce),
    },
    etag: `"${nonce}"`,
  }
}
