import { bundledAsset, bundledDocument } from "./bundles.ts"
import type { Pages } from "./pages.ts"

/** The operator's page. Nobody keeps its document; its files are kept for good. */
export function operatorPages({ serverName }: { serverName: string }): Pages {
  const document = (page: "operator-login" | "operator", title: string) =>
    bundledDocument({
      page,
      serverName,
      title: `${title} · ${serverName}`,
      assets: "assets",
      viewport: "width=device-width, initial-scale=1",
      head: [
        '<meta name="robots" content="noindex">',
        '<meta name="referrer" content="no-referrer">',
        // Text is the only thing that a script may make of what it was sent.
        `<meta http-equiv="Content-Security-Policy" content="require-trusted-types-for 'script'; trusted-types 'none'">`,
      ],
      otherWays: "Operators can also use the command line.",
      headers: nonce => ({
        "Cache-Control": "no-store, no-cache, must-revalidate, max-age=0, private",
        Pragma: "no-cache",
        Expires: "0",
        "Content-Security-Policy": contentSecurityPolicy(nonce),
      }),
    })
  return {
    operatorLogin: document("operator-login", "Sign in"),
    operatorDashboard: document("operator", "Operators"),
    operatorAssets: bundledAsset,
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
