import { createHash } from "node:crypto"
import { escaped } from "./gateway-page.ts"
import type { Page, Pages } from "./pages.ts"

/**
 * The pages that a mailed link opens. The token stands behind the `#`: a browser sends it to
 * nobody, so the page's own script hands it to the API. Nothing happens before a person presses the
 * button: programs that look through a mailbox open links, too.
 */
export function personPages({ serverName }: { serverName: string }): Pages {
  const verifyEmail = page({
    heading: "Verify your e-mail address",
    serverName,
    about:
      "Confirm it only if you made the account yourself: the person who made it can then use it under your address.",
    fields: "",
    button: "This is my address",
    done: "Your address is verified. You can close this page and sign in.",
    script: script("auth/verify-email", "({})"),
  })
  const resetPassword = page({
    heading: "Choose a new password",
    serverName,
    about: "It replaces the one before. You are signed out everywhere.",
    fields: `<label for="password">New password</label>
<input id="password" type="password" autocomplete="new-password" required maxlength="1024">
<label for="again">The same again</label>
<input id="again" type="password" autocomplete="new-password" required maxlength="1024">`,
    button: "Change my password",
    done: "Your password is changed. You can close this page and sign in.",
    script: script(
      "auth/password-reset/confirm",
      `find("password").value === find("again").value ? { new_password: find("password").value } : "The two are not the same."`,
    ),
  })
  const restoreEmail = page({
    heading: "Take your account back",
    serverName,
    about:
      "Your account gets this e-mail address again. Everybody is signed out, the password is removed, and you are sent a mail to choose a new one.",
    fields: "",
    button: "Take my account back",
    done: "Your account has this address again. Please follow the link of the mail that is on its way to you, and choose a new password.",
    script: script("auth/restore-email", "({})", "Please write to the people who run this server."),
  })
  return { verifyEmail: () => verifyEmail, resetPassword: () => resetPassword, restoreEmail: () => restoreEmail }
}

/**
 * @param body an expression: what goes with the token, or what is wrong with it as text
 * @param without what a person does whose link is no longer good
 */
const script = (path: string, body: string, without = "Please ask for another mail.") => `{
const find = id => document.getElementById(id)
const token = location.hash.slice(1)
// Neither the address bar nor the history keeps it.
history.replaceState(null, "", location.pathname)
const form = find("form"), status = find("status"), button = find("button")
const say = (words, kind) => { status.textContent = words; status.className = kind }
const lost = "This link is not whole. Please open it from the mail once more."
if (token) form.hidden = false
else say(lost, "bad")
form.addEventListener("submit", async event => {
  event.preventDefault()
  const body = ${body}
  if (typeof body === "string") return say(body, "bad")
  button.disabled = true
  say("One moment …", "")
  try {
    const access = find("access").value
    const answer = await fetch("api/v1/${path}", {
      method: "POST",
      headers: { "Content-Type": "application/json", ...(access && { "X-API-Access-Token": access }) },
      body: JSON.stringify({ token, ...body }),
    })
    if (answer.ok) {
      form.hidden = true
      return say(form.dataset.done, "good")
    }
    const message = (await answer.json().catch(() => ({}))).error?.message ?? ""
    if (answer.status === 401 && message.includes("API access token")) {
      find("gate").hidden = false
      say("This server asks for its access token, too.", "bad")
    } else if (answer.status === 401) say("This link is no longer good: it was used, replaced by a newer one, or is too old. ${without}", "bad")
    else if ([400, 403, 409].includes(answer.status)) say(message + ".", "bad")
    else say("The server cannot do it right now. Please try again in a minute.", "bad")
  } catch {
    say("The server cannot be reached. Please try again in a minute.", "bad")
  } finally {
    button.disabled = false
  }
})
}`

const style = `
:root { color-scheme: light dark; --paper: light-dark(#f6f7f9, #14171c); --card: light-dark(#fff, #1b1f26); --ink: light-dark(#1d2129, #dde1e8);
  --faint: light-dark(#5b6473, #98a1b0); --line: light-dark(#d5dae2, #353c48); --strong: light-dark(#1a5fb4, #2f6fc4) }
* { box-sizing: border-box }
body { margin: 0; padding: 12vh 1rem 2rem; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif }
main { max-width: 26rem; margin: 0 auto; padding: 1.75rem 2rem; background: var(--card); border: 1px solid var(--line); border-radius: 12px }
h1 { margin: 0 0 .75rem; font-size: 1.35rem; line-height: 1.25 }
p { margin: 0 0 1rem }
.server { margin: 0 0 .25rem; color: var(--faint); font-size: .9rem }
label { display: block; margin: .9rem 0 .3rem; font-size: .9rem }
input { width: 100%; padding: .55rem .7rem; font: inherit; color: inherit; background: var(--paper); border: 1px solid var(--line); border-radius: 8px }
button { width: 100%; margin: 1.25rem 0 .25rem; padding: .65rem; font: inherit; font-weight: 600; color: #fff; background: var(--strong); border: 0; border-radius: 8px; cursor: pointer }
button:disabled { opacity: .6 }
:focus-visible { outline: 2px solid var(--strong); outline-offset: 2px }
[hidden] { display: none }
#status { margin: 1rem 0 0 }
#status:empty { display: none }
.good { color: light-dark(#0b6e3b, #6fd29b) }
.bad { color: light-dark(#b3261e, #f2918b) }
`

interface PageParts {
  heading: string
  serverName: string
  about: string
  fields: string
  button: string
  done: string
  script: string
}

function page({ heading, serverName, about, fields, button, done, script }: PageParts): Page {
  const body = Buffer.from(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<title>${escaped(heading)} · ${escaped(serverName)}</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
<main>
<p class="server">${escaped(serverName)}</p>
<h1>${heading}</h1>
<noscript><p>The link's secret part never leaves your browser by itself: a script of this page has to send it. Please allow scripts here, or open the link in another browser.</p></noscript>
<form id="form" hidden data-done="${done}">
<p>${about}</p>
${fields}
<div id="gate" hidden><label for="access">Access token of this server</label>
<input id="access" autocomplete="off" maxlength="128"></div>
<button id="button">${button}</button>
</form>
<p id="status" role="status"></p>
</main>
<script>${script}</script>
</body>
</html>
`)
  return {
    contentType: "text/html; charset=utf-8",
    body,
    headers: {
      "Cache-Control": "no-cache",
      "Content-Security-Policy": [
        "default-src 'none'",
        `script-src ${hashOf(script)}`,
        `style-src ${hashOf(style)}`,
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
      ].join("; "),
    },
    etag: `"${createHash("sha256").update(body).digest("hex").slice(0, 32)}"`,
  }
}

/** The one inline script, the one inline style, and no other. */
const hashOf = (text: string) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`
