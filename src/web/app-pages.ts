import { randomBytes } from "node:crypto"
import { bundles, type PageFiles } from "./bundles.ts"
import { escaped } from "./gateway-page.ts"
import { themeFirst } from "./operator-pages.ts"
import type { Page, Pages } from "./pages.ts"

/**
 * The page to chat. Its document is made for each answer, with a nonce of its own; its files have
 * names that tell their content, and are kept for good.
 */
export function appPages({ serverName }: { serverName: string }): Pages {
  const load = bundles()
  const html = async () => document((await load()).manifest.app, serverName)
  return {
    app: html,
    appInvite: html,
    appAssets: async path => (await load()).files.get(path.slice(path.lastIndexOf("/") + 1)),
  }
}

/** Pictures of an object store come from its own address, by a signed link. */
const contentSecurityPolicy = (nonce: string) =>
  [
    "default-src 'none'",
    `script-src 'self' 'nonce-${nonce}'`,
    "style-src 'self'",
    "img-src 'self' https: data: blob:",
    "media-src 'self' https: blob:",
    "connect-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; ")

function document({ script, style, parts }: PageFiles, serverName: string): Page {
  const nonce = randomBytes(16).toString("base64")
  const assets = "/app/assets"
  const body = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1, interactive-widget=resizes-content">
<meta name="referrer" content="no-referrer">
<title>${escaped(serverName)}</title>
<link rel="icon" href="data:,">
<script nonce="${nonce}">${themeFirst}</script>
<link rel="stylesheet" href="${assets}/${style}">
${parts.map(part => `<link rel="modulepreload" nonce="${nonce}" href="${assets}/${part}">\n`).join("")}<script type="module" nonce="${nonce}" src="${assets}/${script}"></script>
</head>
<body data-server="${escaped(serverName)}">
<div id="page"></div>
<noscript>This page needs JavaScript.</noscript>
</body>
</html>
`
  return {
    contentType: "text/html; charset=utf-8",
    body: Buffer.from(body),
    headers: {
      "Cache-Control": "no-store",
      "Content-Security-Policy": contentSecurityPolicy(nonce),
      "Cross-Origin-Opener-Policy": "same-origin",
    },
    etag: `"${nonce}"`,
  }
}
