import { createHash } from "node:crypto"
import { escaped } from "./gateway-page.ts"
import type { Page, Pages, PageSource } from "./pages.ts"
import { personTexts, type PersonTexts } from "./person-texts.ts"
import { readerLanguage, type Language } from "./reader-language.ts"

/**
 * The pages that a mailed link opens. The token stands behind the `#`: a browser sends it to
 * nobody, so the page's own script hands it to the API. Nothing happens before a person presses the
 * button: programs that look through a mailbox open links, too.
 */
export function personPages({ serverName }: { serverName: string }): Pages {
  const made = { en: pagesIn("en", serverName), de: pagesIn("de", serverName) } satisfies Record<Language, unknown>
  const inLanguage =
    (name: keyof (typeof made)["en"]): PageSource =>
    (_, accepted) =>
      made[readerLanguage(accepted)][name]
  return {
    verifyEmail: inLanguage("verifyEmail"),
    resetPassword: inLanguage("resetPassword"),
    restoreEmail: inLanguage("restoreEmail"),
  }
}

function pagesIn(language: Language, serverName: string) {
  const texts = personTexts[language]
  const { verifyEmail, resetPassword, restoreEmail } = texts
  const { anotherMail, writeToPeople } = texts.script
  const shared = { language, serverName, texts }
  return {
    verifyEmail: page({
      ...shared,
      ...verifyEmail,
      fields: "",
      script: script(texts, "auth/verify-email", "({})", anotherMail),
    }),
    resetPassword: page({
      ...shared,
      ...resetPassword,
      fields: `<label for="password">${escaped(resetPassword.password)}</label>
<input id="password" type="password" autocomplete="new-password" required maxlength="1024">
<label for="again">${escaped(resetPassword.again)}</label>
<input id="again" type="password" autocomplete="new-password" required maxlength="1024">`,
      script: script(
        texts,
        "auth/password-reset/confirm",
        `find("password").value === find("again").value ? { new_password: find("password").value } : ${literal(resetPassword.notSame)}`,
        anotherMail,
      ),
    }),
    restoreEmail: page({
      ...shared,
      ...restoreEmail,
      fields: "",
      script: script(texts, "auth/restore-email", "({})", writeToPeople),
    }),
  }
}

/** A value in a script that stands in a page. */
const literal = (value: unknown) => JSON.stringify(value).replaceAll("<", "\\u003c")

/**
 * @param body an expression: what goes with the token, or what is wrong with it as text
 * @param without what a person does whose link is no longer good
 */
const script = ({ script: texts, said }: PersonTexts, path: string, body: string, without: string) => `{
const find = id => document.getElementById(id)
const token = location.hash.slice(1)
// Neither the address bar nor the history keeps it.
history.replaceState(null, "", location.pathname)
const form = find("form"), status = find("status"), button = find("button")
const say = (words, kind) => { status.textContent = words; status.className = kind }
const inOwnWords = words => ${literal(said)}.reduce((words, [theirs, own]) => words.replaceAll(theirs, own), words)
if (token) form.hidden = false
else say(${literal(texts.notWhole)}, "bad")
form.addEventListener("submit", async event => {
  event.preventDefault()
  const body = ${body}
  if (typeof body === "string") return say(body, "bad")
  button.disabled = true
  say(${literal(texts.moment)}, "")
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
      say(${literal(texts.gated)}, "bad")
    } else if (answer.status === 401) say(${literal(`${texts.over} ${without}`)}, "bad")
    else if ([400, 403, 409].includes(answer.status)) say(inOwnWords(message).replace(/\\.?$/, "."), "bad")
    else say(${literal(texts.busy)}, "bad")
  } catch {
    say(${literal(texts.unreachable)}, "bad")
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
  readonly language: Language
  readonly serverName: string
  readonly texts: PersonTexts
  readonly heading: string
  readonly about: string
  /** HTML */
  readonly fields: string
  readonly button: string
  readonly done: string
  readonly script: string
}

function page({ language, serverName, texts, heading, about, fields, button, done, script }: PageParts): Page {
  const body = Buffer.from(`<!doctype html>
<html lang="${language}">
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
<h1>${escaped(heading)}</h1>
<noscript><p>${escaped(texts.noScript)}</p></noscript>
<form id="form" hidden data-done="${escaped(done)}">
<p>${escaped(about)}</p>
${fields}
<div id="gate" hidden><label for="access">${escaped(texts.accessToken)}</label>
<input id="access" autocomplete="off" maxlength="128"></div>
<button id="button">${escaped(button)}</button>
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
      "Content-Language": language,
      Vary: "Accept-Language",
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
