import { createHash } from "node:crypto"
import type { Content } from "../contract/core/registry.ts"
import { escaped } from "./gateway-page.ts"

/**
 * Pages that clients send people to when they were signed out or are not let in. They load nothing
 * and run nothing.
 */

const style = `
:root { color-scheme: light dark; --ink: #1c2330; --paper: #fff; --quiet: #5b6475; --line: #e1e5ec; --link: #1a5fb4 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --paper: #14181f; --quiet: #9aa4b5; --line: #2a313d; --link: #7fb2f0 } }
body { margin: 0; font: 17px/1.6 system-ui, sans-serif; color: var(--ink); background: var(--paper) }
main { max-width: 38rem; margin: 0 auto; padding: 3rem 1.25rem 5rem }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 1rem }
h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; padding-top: 1.2rem; border-top: 1px solid var(--line) }
p, ul, ol { margin: .5rem 0 }
li { margin: .3rem 0 }
footer { margin-top: 3rem; color: var(--quiet); font-size: .9rem }
`

const styleHash = createHash("sha256").update(style).digest("base64")

const headers = {
  "Cache-Control": "public, max-age=3600",
  "Content-Security-Policy": `default-src 'none'; style-src 'sha256-${styleHash}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'`,
}

function helpPage(server: string, heading: string, text: string): Content {
  const body = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${escaped(heading)} · ${escaped(server)}</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
<main>
<h1>${escaped(heading)}</h1>
${text}
<footer>${escaped(server)}</footer>
</main>
</body>
</html>
`
  return { contentType: "text/html; charset=utf-8", body: Buffer.from(body), headers }
}

export const securityLogoutPage = (server: string): Content =>
  helpPage(
    server,
    "You were signed out",
    `<p>The people who run ${escaped(server)} ended your session to protect your account. Nothing of yours was deleted: your servers, messages
and friends are where they were.</p>
<h2>What to do now</h2>
<ol>
<li>Sign in again with your name or e-mail address and your password.</li>
<li>If you use the password elsewhere too, or somebody else may know it, choose another one afterwards.</li>
<li>Turn on a second factor if you have none: a stolen password is then not enough.</li>
<li>Look through the list of your sessions and end those that are not yours.</li>
</ol>
<h2>Why this happens</h2>
<ul>
<li>Everybody was signed out at once, because tokens may have become known to somebody.</li>
<li>Something on your account looked as if it was not you.</li>
<li>Your account was suspended. Signing in then says so, with a reason where one was given.</li>
</ul>
<h2>If you cannot sign in</h2>
<p>After several wrong passwords an account is locked for a while: wait before you try again. If you have forgotten the password, ask
for a mail to reset it. If the account is suspended, write to the people who run this server.</p>`,
  )

export const accessBlockedPage = (server: string): Content =>
  helpPage(
    server,
    "Access is blocked",
    `<p>${escaped(server)} does not answer requests from the network address that you come from. Your account itself is not touched by this.</p>
<h2>Why this happens</h2>
<ul>
<li>Somebody using the same address abused the service. Providers, schools, companies and VPNs let many people share one.</li>
<li>Very many requests or wrong passwords came from it.</li>
<li>The service is open only to certain networks, or to applications that bring an access token of this server.</li>
</ul>
<h2>What to do now</h2>
<ol>
<li>If you use a VPN or a proxy, turn it off and try again.</li>
<li>Try another network, such as your phone's.</li>
<li>Wait a while: many blocks end by themselves.</li>
<li>If it lasts, tell the people who run this server your address and when it happened. Your provider, or a page that shows
your IP address, can tell you which one it is.</li>
</ol>`,
  )
