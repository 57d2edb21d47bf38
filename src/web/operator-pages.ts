import { randomBytes } from "node:crypto"
import { bundles, type BundledPage, type PageFiles } from "./bundles.ts"
import { escaped } from "./gateway-page.ts"
import type { Page, Pages, PageSource } from "./pages.ts"

/**
 * The operator's page. Its scripts and styles are made of `web/`, and read when somebody first asks
 * for one of them. The document is made for each answer, with a nonce of its own, and nobody keeps
 * it; the files have names that tell their content, and are kept for good.
 */
export function operatorPages({ serverName }: { serverName: string }): Pages {
  const load = bundles()
  const html =
    (name: BundledPage, title: string): PageSource =>
    async () =>
      document((await load()).manifest[name], { title, serverName })
  return {
    operatorLogin: html("operator-login", "Sign in"),
    operatorDashboard: html("operator", "Operators"),
    operatorAssets: async path => (await load()).files.get(path.slice(path.lastIndexOf("/") + 1)),
  }
}

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
export const themeFirst = `const t = localStorage.getItem("starling.theme")
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
