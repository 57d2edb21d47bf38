/**
 * Mails as they arrive at a mail server, and what becomes of them when it is away, refuses them or
 * hangs.
 */
import type { Page } from "playwright-core"
import { afterAll, beforeAll } from "vitest"
import { hashSecret } from "../../src/cluster/tokens.ts"
import { routes as emailLinks } from "../../src/contract/accounts/email-links.ts"
import { errors, type ErrorCode } from "../../src/contract/core/errors.ts"
import { passwordFaults } from "../../src/domain/accounts/passwords.ts"
import { createLog } from "../../src/observability/log.ts"
import { personTexts } from "../../src/web/person-texts.ts"
import { createMailer, type MailerOptions } from "../../src/workers/mail.ts"
import { startBrowser } from "../kit/browser.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { Mailbox, openIdler } from "../kit/mailbox.ts"
import { clientAt } from "../kit/person.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const mailbox = await Mailbox.open()
afterAll(() => mailbox.stop())
const serverName = "Grüße & Ärger"
const test = testWith({
  config: {
    STARLING_EMAIL_VERIFICATION_REQUIRED: "true",
    STARLING_MAILS_PER_HOUR: "9",
    STARLING_SERVER_NAME: serverName,
  },
})

const forgotten = "forgotten@example.com"
let working: Promise<unknown> | undefined
/** The links lead to a worker of this test. */
const withMail = (shared: SharedCluster) =>
  (working ??= (async () => {
    const username = shared.newName("Forgotten")
    await refusal(clientAt(shared.east).register({ username, email: forgotten, password }))
    // No job knows of these two: a queue may forget.
    await shared.sql`
      INSERT INTO mails (user_id, kind, number, asked_at)
      SELECT user_id, kind, 2, asked_at - 600 FROM mails UNION ALL SELECT NULL, 'verify_email', 1, 1`
    await shared.bootJobWorker({
      config: {
        SMTP_URL: mailbox.url,
        STARLING_MAIL_FROM: "starling@chat.example",
        PUBLIC_URL: shared.east.url,
        STARLING_SERVER_NAME: serverName,
      },
    })
  })())

const password = "Correct-Horse-9"
async function newcomer(shared: SharedCluster, before: (email: string) => unknown = () => {}) {
  await withMail(shared)
  const username = shared.newName("New")
  const who = { username, email: `${username.toLowerCase()}@example.com` }
  before(who.email)
  expect(await refusal(clientAt(shared.west).register({ ...who, password }))).toBe("registered_unverified")
  return who
}

let browser: Awaited<ReturnType<typeof startBrowser>>
// Where there is none yet it is installed, which takes its time.
beforeAll(async () => {
  browser = await startBrowser()
  return async () => {
    if (typeof browser !== "string") await browser.close()
  }
}, 15 * 60_000)

test("a mail arrives as text and as HTML with the same link, under the server's name, and asks for no answer", async ({
  shared,
}) => {
  const { username, email } = await newcomer(shared)
  const { subject, headers, text, html, link, to } = await mailbox.next(email)
  expect(to).toEqual([email])
  expect(subject).toBe(`Verify your e-mail address on ${serverName}`)
  expect(headers.get("from")).toMatch(/<starling@chat\.example>$/)
  expect(headers.get("to")).toBe(email)
  expect(headers.get("auto-submitted")).toBe("auto-generated")
  expect(link).toMatch(new RegExp(`^${shared.east.url}/verify-email#email\\.\\d+\\.[A-Za-z0-9_-]{43}$`))
  expect(text).toContain(`Hello ${username},`)
  expect(html).toContain(`<a href="${link}"`)
  expect(html).toContain("Grüße &amp; Ärger")
  // Nothing in it tells its sender that it was opened.
  expect(html).not.toMatch(/<img|<script|<link|url\(/)
})

test("the links open pages on which a person verifies their address, chooses a new password and takes their account back", async ({
  shared,
  skip,
}) => {
  // Where every change is checked it may not be left out unnoticed.
  if (typeof browser === "string" && process.env["CI"]) throw new Error(browser)
  if (typeof browser === "string") return skip(browser)
  const { username, email } = await newcomer(shared)
  const { login, requestPasswordReset } = clientAt(shared.west)
  const page = await browser.newPage()
  const noise: string[] = []
  page.on("console", message => void (["error", "warning"].includes(message.type()) && noise.push(message.text())))
  page.on("pageerror", error => noise.push(String(error)))
  const urls: string[] = []
  page.on("request", request => urls.push(request.url()))
  const says = (words: string) => page.getByRole("status").filter({ hasText: words }).waitFor({ timeout: 5_000 })

  const verification = await mailbox.next(email)
  await page.goto(verification.link)
  // A program that opens every link of a mailbox presses nothing.
  expect(await refusal(login({ username, password }))).toBe("email_not_verified")
  expect(new URL(page.url()).hash).toBe("")
  await page.getByRole("button", { name: "This is my address" }).click()
  await says("Your address is verified")
  expect((await login({ username, password })).status).toBe("success")

  await requestPasswordReset({ email })
  const reset = await mailbox.next(email)
  await page.goto(reset.link)
  const fill = async (first: string, second: string) => {
    await page.getByLabel("New password").fill(first)
    await page.getByLabel("The same again").fill(second)
    await page.getByRole("button", { name: "Change my password" }).click()
  }
  await fill("Another-Horse-9", "Another-Horse-8")
  await says("not the same")
  await fill("only-lower-case", "only-lower-case")
  await says("Weak password: it needs")
  const german = await browser.newPage({ locale: "de-AT" })
  await german.goto(reset.link)
  for (const label of ["Neues Passwort", "Noch einmal dasselbe"]) await german.getByLabel(label).fill("kurz")
  await german.getByRole("button", { name: "Passwort ändern" }).click()
  const refused = german.getByRole("status").filter({ hasText: "schwach" })
  expect(await refused.textContent()).toMatch(
    /^Das Passwort ist zu schwach: Es braucht mindestens \d+ Zeichen, einen Großbuchstaben, eine Ziffer(, ein Sonderzeichen)?\.$/,
  )
  await german.close()
  await fill("Another-Horse-9", "Another-Horse-9")
  await says("Your password is changed")
  expect((await login({ username, password: "Another-Horse-9" })).status).toBe("success")

  const { token } = await login({ username, password: "Another-Horse-9" })
  const elsewhere = `${shared.newName("moved")}@example.com`
  await clientAt(shared.east, token!).editMe({ email: elsewhere, current_password: "Another-Horse-9" })
  await page.goto((await mailbox.next(email)).link)
  await page.getByRole("button", { name: "Take my account back" }).click()
  await says("Your account has this address again")
  expect(await refusal(clientAt(shared.east, token!).getMe())).toBe("revoked_token")
  await mailbox.next(email)

  // Where the API asks for an access token, the page does.
  await requestPasswordReset({ email })
  const { link } = await mailbox.next(email)
  const access = "page-test-page-test-page-test-32"
  const statusOf = async () => (await fetch(`${shared.east.url}/api/v1/users/@me`)).text()
  const shut = () => until("the gate is shut", async () => (await statusOf()).includes("API access token"))
  const opened = () => until("the gate is open", async () => !(await statusOf()).includes("API access token"))
  await shared.sql`
    WITH changed AS (UPDATE service SET access_version = access_version + 1)
    INSERT INTO access_tokens (name, token_hash, created_at) VALUES ('page', ${hashSecret(access)}, 1)`
  await shut()
  await openAgain(page, link)
  await fill("Fourth-Horse-99", "Fourth-Horse-99")
  await says("access token")
  await page.getByLabel("Access token of this server").fill(access)
  await page.getByRole("button", { name: "Change my password" }).click()
  await says("Your password is changed")
  await shared.sql`
    WITH changed AS (UPDATE service SET access_version = access_version + 1) UPDATE access_tokens SET revoked_at = 1`
  await opened()

  await openAgain(page, reset.link)
  await fill("Third-Horse-99", "Third-Horse-99")
  await says("no longer good")
  await openAgain(page, `${shared.east.url}/reset-password`)
  await says("not whole")

  // The browser writes down that an answer was no success; nothing else happened, and the policy
  // refused nothing.
  expect(noise.filter(line => !line.startsWith("Failed to load resource"))).toEqual([])
  for (const { token } of [verification, reset])
    expect(urls.filter(url => url.split("#")[0]!.includes(token))).toEqual([])
  await page.close()
})

/** Another fragment alone would load nothing. */
const openAgain = async (page: Page, link: string) => {
  await page.goto("about:blank")
  await page.goto(link)
}

test("the pages run one script and let nobody frame them", async ({ shared }) => {
  for (const path of ["/verify-email", "/reset-password", "/restore-email"]) {
    const { status, text, headers } = await send(shared.west, path)
    expect(status).toBe(200)
    const policy = headers.get("content-security-policy")!
    expect(policy).toContain("default-src 'none'; script-src 'sha256-")
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).not.toContain("unsafe")
    expect(text).toContain("Grüße &amp; Ärger")
    expect(text).toContain("<noscript>")
    expect(text).not.toMatch(/ on\w+=|style=|src=/)
  }
})

/** Every text of a language's pages. */
const textsOf = (part: unknown): string[] =>
  typeof part === "string" ? [part] : Object.values(part as Record<string, unknown>).flatMap(textsOf)

test("the pages speak German to whom the browser says so for, and nothing of them is left in English", async ({
  shared,
}) => {
  const { said: none, ...english } = personTexts.en
  const { said, ...german } = personTexts.de
  expect(none).toEqual([])
  const unescaped = (html: string) => html.replaceAll("&lt;", "<").replaceAll("&quot;", '"').replaceAll("&amp;", "&")
  for (const path of ["/verify-email", "/reset-password", "/restore-email"]) {
    const asked = (accepted: string, tag = "") =>
      send(shared.west, path, { headers: { "accept-language": accepted, "if-none-match": tag } })
    const [inEnglish, inGerman] = [await asked("fr, en;q=0.5"), await asked("de-CH, en;q=0.9")]
    for (const [{ text, headers }, language, own, other] of [
      [inEnglish, "en", english, german],
      [inGerman, "de", german, english],
    ] as const) {
      expect(text).toContain(`<html lang="${language}">`)
      expect(headers.get("content-language")).toBe(language)
      expect(headers.get("vary")).toBe("Origin, Accept-Language, Accept-Encoding")
      const left = textsOf(other).filter(words => text.includes(words) || unescaped(text).includes(words))
      expect([path, left]).toEqual([path, []])
      // What people read is one of the texts, or the server's name.
      const shown = text.replace(/<(style|script)[\s\S]*?<\/\1>|<title>.*<\/title>/g, "").split(/<[^>]*>/)
      const known = new Set([...textsOf(own), serverName])
      expect(shown.map(words => unescaped(words.trim())).filter(words => words && !known.has(words))).toEqual([])
    }
    const tag = inEnglish.headers.get("etag")!
    expect((await asked("en", tag)).status).toBe(304)
    expect((await asked("de", tag)).status).toBe(200)
  }
  // What the server may refuse there is said in German, too.
  const inOwnWords = (words: string) => said.reduce((left, [theirs, own]) => left.replaceAll(theirs, own), words)
  const shown = [emailLinks.verifyEmail, emailLinks.confirmPasswordReset, emailLinks.restoreEmail]
    .flatMap(({ fails }): readonly ErrorCode[] => fails)
    .flatMap(code => (errors[code].status === 401 ? [] : [errors[code].message]))
  for (const message of [...shown, errors.address_blocked.message])
    expect(said.map(([theirs]) => theirs)).toContain(message.replace(/\.$/, ""))
  const rules = {
    password_min_length: 9,
    password_max_length: 3,
    password_require_uppercase: true,
    password_require_lowercase: true,
    password_require_digit: true,
    password_require_special: true,
  }
  expect(inOwnWords(`Weak password: it needs ${passwordFaults("    ", rules).join(", ")}`)).toBe(
    "Das Passwort ist zu schwach: Es braucht mindestens 9 Zeichen, höchstens 3 Zeichen, einen Großbuchstaben, einen Kleinbuchstaben, eine Ziffer, ein Sonderzeichen",
  )
})

test("what was asked for while the mail server is away goes out when it is back", async ({ shared }) => {
  await withMail(shared)
  await mailbox.stop()
  const waiting: { email: string }[] = []
  for (let i = 0; i < 3; i++) waiting.push(await newcomer(shared))
  // Each try begins with a token.
  const tried = () => shared.sql`
    SELECT FROM one_time_tokens WHERE email = ANY(${waiting.map(({ email }) => email)}::text[])`
  await until("each was tried", async () => (await tried()).length === waiting.length)
  await mailbox.start()
  for (const { email } of waiting) {
    const { token } = await mailbox.next(email)
    expect(await clientAt(shared.east).verifyEmail({ token })).toEqual({ success: true })
  }
})

test("a mail that may not have arrived is sent again, and either link is good", async ({ shared }) => {
  await withMail(shared)
  const { email } = await newcomer(shared, email => mailbox.silentFor.add(email))
  const [first, second] = [await mailbox.next(email), await mailbox.next(email)]
  const { verifyEmail } = clientAt(shared.east)
  expect(await verifyEmail({ token: first.token })).toEqual({ success: true })
  expect(await refusal(verifyEmail({ token: second.token }))).toBe("invalid_token")
})

test("an address that its own server does not know is tried once; one that has to wait, again", async ({ shared }) => {
  await withMail(shared)
  const answers = new Map<string, number[]>()
  mailbox.judge = address => {
    const responseCode = answers.get(address)?.shift()
    if (responseCode) throw Object.assign(new Error(`${address} is not served`), { responseCode })
  }
  try {
    const asked = async (codes: number[]) => {
      const username = shared.newName("New")
      const email = `${username}@example.com`
      answers.set(email, codes)
      expect(await refusal(clientAt(shared.east).register({ username, email, password }))).toBe("registered_unverified")
      return email
    }
    const [unknown, busy] = [await asked([550, 550, 550]), await asked([450])]
    await mailbox.next(busy)
    const waiting = () => shared.sql`
      SELECT FROM mails m JOIN users u ON u.id = m.user_id WHERE sent_at IS NULL AND u.email = ${unknown}`
    await until("it waits no longer", async () => (await waiting()).length === 0)
    expect(answers.get(unknown)).toHaveLength(2)
    expect(mailbox.to(unknown)).toEqual([])
  } finally {
    mailbox.judge = () => {}
  }
})

test("a mail whose job was lost is found by the sweep, and old ones are forgotten", async ({ shared }) => {
  await withMail(shared)
  // A sweep that could not do it is followed by another after a minute.
  await until("both have arrived", () => mailbox.to(forgotten).length === 2, { timeoutMs: 150_000 })
  await until("it is forgotten", async () => (await shared.sql`SELECT FROM mails WHERE asked_at = 1`).length === 0)
})

test("mails that are refused again and again keep none behind them from going out", async ({ cluster }) => {
  const place = (await cluster.boot(1))[0]!
  const ada = await cluster.person("patient", place)
  const now = Math.floor(Date.now() / 1000)
  // As a sweep has left them: those were tried and are older, this one was not.
  await cluster.sql`
    INSERT INTO users (id, username, email, created_at)
    SELECT 382453166884212736 + i, 'refused_' || i, 'refused_' || i || '@example.com', ${now} FROM generate_series(1, 20) AS i`
  await cluster.sql`
    INSERT INTO mails (user_id, kind, number, asked_at, tried_at)
    SELECT id, 'password_reset', 1, ${now - 7200}, ${now - 300} FROM users WHERE username LIKE 'refused%'`
  await cluster.sql`
    INSERT INTO mails (user_id, kind, number, asked_at) VALUES (${ada.id}, 'password_reset', 1, ${now - 3600})`
  mailbox.judge = address => {
    if (address.startsWith("refused")) throw Object.assign(new Error("later"), { responseCode: 451 })
  }
  try {
    await cluster.bootJobWorker({ config: { SMTP_URL: mailbox.url, STARLING_MAIL_FROM: "starling@chat.example" } })
    expect((await mailbox.next(ada.email)).to).toEqual([ada.email])
  } finally {
    mailbox.judge = () => {}
  }
})

const mail = { kind: "password_reset", to: "ada@example.com", username: "ada", token: "email.1.secret" } as const
const unaborted = new AbortController().signal

/** A mailer with its log. */
function mailer(options: Partial<MailerOptions>) {
  const lines: string[] = []
  const log = createLog({ level: "debug", process: "job" }, { write: line => void lines.push(line) })
  const from = "starling@chat.example"
  const made = createMailer({
    smtpUrl: mailbox.url,
    from,
    serverName,
    publicUrl: "https://chat.example",
    log,
    ...options,
  })
  return { send: (signal = unaborted) => made.send(mail, signal), lines }
}

test("without a mail server the log shows the link; with one it shows neither link nor address, whatever goes wrong", async () => {
  const without = mailer({ smtpUrl: undefined })
  await without.send()
  expect(without.lines).toHaveLength(1)
  expect(JSON.parse(without.lines[0]!)).toMatchObject({
    level: "info",
    kind: "password_reset",
    link: "https://chat.example/reset-password#email.1.secret",
  })
  expect(without.lines[0]).not.toContain("ada")

  const good = mailer({})
  await good.send()
  mailbox.judge = address => {
    throw Object.assign(new Error(`no such mailbox: ${address}`), { responseCode: 550 })
  }
  await good.send()
  mailbox.judge = address => {
    throw Object.assign(new Error(`later: ${address}`), { responseCode: 451 })
  }
  await expect(good.send()).rejects.toMatchObject({ code: "unavailable" })
  mailbox.judge = () => {}
  const away = mailer({ smtpUrl: "smtp://starling:hush@127.0.0.1:1" })
  await expect(away.send()).rejects.toMatchObject({ code: "unavailable" })
  const lines = [...good.lines, ...away.lines]
  expect(lines.map(line => (JSON.parse(line) as { level: string }).level)).toEqual(["info", "warn", "warn"])
  for (const secret of ["secret", "ada", "hush"]) expect(lines.filter(line => line.includes(secret))).toEqual([])
})

test("a name of many lines makes no header of its own", async () => {
  const before = mailbox.letters.length
  await mailer({ serverName: "Evil\r\nBcc: eve@example.com\nX-Evil: yes" }).send()
  const letter = mailbox.letters[before]!
  expect(letter.to).toEqual([mail.to])
  expect([...letter.headers.keys()].filter(name => name === "bcc" || name === "x-evil")).toEqual([])
  expect(letter.subject).toBe("Reset your password on Evil Bcc: eve@example.com X-Evil: yes")
})

test("a mail server that never answers holds up at most eight mails, and none for long", async () => {
  for (const says of ["nothing", "much"] as const) {
    const { url, server } = await openIdler(says)
    const idle = mailer({ smtpUrl: url, timeoutsMs: { step: 300, whole: 900 } })
    const begun = performance.now()
    const sent = Array.from({ length: 8 }, () => idle.send().catch((error: Error) => error.message))
    await expect(idle.send()).rejects.toThrow("Service temporarily unavailable")
    expect(idle.lines).toEqual([])
    expect(await Promise.all(sent)).toEqual(Array.from({ length: 8 }, () => "Service temporarily unavailable"))
    expect(performance.now() - begun).toBeLessThan(5_000)
    expect(idle.lines).toHaveLength(8)

    const stopping = new AbortController()
    const last = idle.send(stopping.signal)
    stopping.abort(new Error("the process ends"))
    await expect(last).rejects.toMatchObject({ code: "unavailable" })
    expect(idle.lines).toHaveLength(8)
    server.close()
  }
})

test("a password goes to a mail server of another machine encrypted or not at all", async () => {
  const { host } = new URL(mailbox.url)
  const within = mailer({ smtpUrl: `smtp://starling:hush@${host}` })
  await within.send()
  expect(mailbox.signedIn).toEqual(["starling"])
  // This machine by an address that is not loopback's. The server offers no encryption.
  const without = mailer({ smtpUrl: `smtp://starling:hush@${host.replace("127.0.0.1", "0.0.0.0")}` })
  await expect(without.send()).rejects.toMatchObject({ code: "unavailable" })
  expect(mailbox.signedIn).toEqual(["starling"])
  expect(without.lines.join()).toContain("ETLS")
})
