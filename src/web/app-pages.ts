import { bundledAsset, bundledDocument } from "./bundles.ts"
import type { Pages } from "./pages.ts"

/** The page to chat. Nobody keeps its document; its files are kept for good. */
export function appPages({ serverName }: { serverName: string }): Pages {
  const document = bundledDocument({
    page: "app",
    serverName,
    title: serverName,
    assets: "/app/assets",
    viewport: "width=device-width, initial-scale=1, interactive-widget=resizes-content",
    head: ['<meta name="referrer" content="no-referrer">'],
    headers: nonce => ({
      "Cache-Control": "no-store",
      "Content-Security-Policy": contentSecurityPolicy(nonce),
      "Cross-Origin-Opener-Policy": "same-origin",
    }),
  })
  return { app: document, appInvite: document, appAssets: bundledAsset }
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
