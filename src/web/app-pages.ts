import { createHash } from "node:crypto"
import { bundledAsset, bundledDocument, bundledFile, bundledFiles } from "./bundles.ts"
import type { Page, Pages } from "./pages.ts"

const assets = "/app/assets"

/** The page to chat. Nobody keeps its document; its files are kept for good. */
export function appPages({ serverName, isOffline }: { serverName: string; isOffline: boolean }): Pages {
  const document = bundledDocument({
    page: "app",
    serverName,
    title: serverName,
    assets,
    manifest: "/app/manifest.webmanifest",
    told: { offline: isOffline ? "on" : "off" },
    viewport: "width=device-width, initial-scale=1, interactive-widget=resizes-content",
    head: ['<meta name="referrer" content="no-referrer">'],
    headers: nonce => ({
      "Cache-Control": "no-store",
      "Content-Security-Policy": contentSecurityPolicy(nonce),
      "Cross-Origin-Opener-Policy": "same-origin",
    }),
  })
  return {
    app: document,
    appInvite: document,
    appAssets: bundledAsset,
    appManifest: () => manifestOf(serverName),
    ...(isOffline ? { appWorker: workerPage } : noAppPages),
  }
}

/** Without the page: its service worker, where a browser has it yet, removes itself with all that it keeps. */
export const noAppPages: Pages = {
  appWorker: () =>
    file(
      "text/javascript; charset=utf-8",
      `addEventListener("install", () => skipWaiting())
addEventListener("activate", event => event.waitUntil((async () => {
  for (const name of await caches.keys()) if (name.startsWith("starling-app-")) await caches.delete(name)
  await registration.unregister()
})()))
`,
    ),
}

/** It names its files, so that a browser has another one as soon as one of them is another. */
async function workerPage(): Promise<Page> {
  const { script, style, parts, later, worker, icons } = await bundledFiles("app")
  const names = [script, style, ...parts, ...later, ...Object.values(icons!)]
  const version = createHash("sha256").update(names.join()).digest("hex").slice(0, 16)
  const text = `self.starling = ${JSON.stringify({ version, names })};\n${(await bundledFile(worker!)).toString()}`
  return file("text/javascript; charset=utf-8", text, { "Service-Worker-Allowed": "../app" })
}

async function manifestOf(serverName: string): Promise<Page> {
  const { small, large, drawn } = (await bundledFiles("app")).icons!
  const icon = (name: string, sizes: string, type: string) => ({
    src: `assets/${name}`,
    sizes,
    type,
    purpose: "any maskable",
  })
  const manifest = {
    name: serverName,
    short_name: serverName.slice(0, 12),
    id: "../app",
    start_url: "../app",
    scope: "../app",
    display: "standalone",
    background_color: "#1d3557",
    theme_color: "#1d3557",
    icons: [
      icon(small, "192x192", "image/png"),
      icon(large, "512x512", "image/png"),
      icon(drawn, "any", "image/svg+xml"),
    ],
  }
  return file("application/manifest+json", JSON.stringify(manifest))
}

const file = (contentType: string, text: string, headers: Readonly<Record<string, string>> = {}): Page => ({
  contentType,
  body: Buffer.from(text),
  headers: { "Cache-Control": "no-cache", ...headers },
  etag: `"${createHash("sha256").update(text).digest("base64url").slice(0, 22)}"`,
})

/** Pictures of an object store come from its own address, by a signed link. */
const contentSecurityPolicy = (nonce: string) =>
  [
    "default-src 'none'",
    `script-src 'self' 'nonce-${nonce}'`,
    "style-src 'self'",
    "img-src 'self' https: data: blob:",
    "media-src 'self' https: blob:",
    "connect-src 'self'",
    "worker-src 'self'",
    "manifest-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    "require-trusted-types-for 'script'",
    // Its one policy knows one address: that of the service worker.
    "trusted-types starling-worker",
  ].join("; ")
