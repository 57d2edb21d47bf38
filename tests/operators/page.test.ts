/**
 * The operator's page, as the server serves it and in a real browser: from the first sign-in to the
 * end of a maintenance. What is seen of it is judged by axe, in both themes and on a small screen.
 */
import { readdir, readFile } from "node:fs/promises"
import { createRequire } from "node:module"
import { join } from "node:path"
import { hash } from "argon2"
import { generateSync } from "otplib"
import type { Page } from "playwright-core"
import { onTestFinished } from "vitest"
import { operatorRoutes, routes } from "../../src/contract/contract.ts"
import { routeRateLimits } from "../../src/contract/core/limits.ts"
import type { Route } from "../../src/contract/core/registry.ts"
import { newOperator, type TestOperator } from "../kit/area.ts"
import { browserForFile } from "../kit/browser.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { attentive } from "../kit/operator.ts"
import { clientAt } from "../kit/person.ts"
import { identified } from "../kit/raw.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ topology: attentive })
const roots = ["/api/v1/admin", "/admin"] as const
const project = join(import.meta.dirname, "../..")

const policy = (nonce: string) =>
  `default-src 'self'; script-src 'self' 'nonce-${nonce}'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; ` +
  "connect-src 'self'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'"

test("each answer has a nonce of its own and is kept by nobody; its files have names that tell their content", async ({
  shared,
}) => {
  const nonces = new Set<string>()
  const files = new Set<string>()
  for (const root of roots)
    for (const page of ["login", "ui-dashboard"]) {
      const { status, text, headers } = await send(shared.east, `${root}/${page}`)
      expect(status).toBe(200)
      const nonce = /<script nonce="([^"]+)"/.exec(text)![1]!
      nonces.add(nonce)
      expect(headers.get("content-security-policy")).toBe(policy(nonce))
      expect(headers.get("cache-control")).toBe("no-store, no-cache, must-revalidate, max-age=0, private")
      expect(headers.get("pragma")).toBe("no-cache")
      expect(headers.get("expires")).toBe("0")
      expect(headers.get("content-type")).toBe("text/html; charset=utf-8")
      // A nonce may have two slashes in it.
      expect(text.replaceAll(nonce, "")).not.toMatch(/https?:|\/\/|style=| on\w+=/)
      for (const [, script] of text.matchAll(/<script([^>]*)>/g)) expect(script).toContain(`nonce="${nonce}"`)
      for (const [, file] of text.matchAll(/(?:src|href)="(assets\/[^"]+)"/g)) files.add(`${root}/${file}`)
    }
  expect(nonces.size).toBe(4)
  expect(files.size).toBeGreaterThanOrEqual(8)
  for (const file of files) {
    const { status, text, headers } = await send(shared.west, file)
    expect([file, status]).toEqual([file, 200])
    expect(headers.get("cache-control")).toBe("public, max-age=31536000, immutable")
    expect(headers.get("content-type")).toMatch(file.endsWith(".css") ? /^text\/css/ : /^text\/javascript/)
    // What checks with the contract is on the server; and no style is asked of anybody else.
    expect(text).not.toContain("_zod")
    expect(text).not.toMatch(/url\(|@import/)
  }
  for (const name of ["manifest.json", "operator.js", "..%2fmanifest.json"])
    expect([name, (await send(shared.east, `${roots[0]}/assets/${name}`)).status]).toEqual([name, 404])
  for (const [path, to] of [
    ["/api/v1/admin/", "login"],
    ["/api/v1/admin/ui", "ui-dashboard"],
    ["/admin/ui", "ui-dashboard"],
  ]) {
    const answer = await send(shared.east, path!, { headers: { cookie: "" } })
    expect([path, answer.status, answer.headers.get("location")?.replace(/.*\//, "")]).toEqual([path, 307, to])
  }
})

test("who asks for the dashboard's page takes from its own limit, at both of its paths", async ({ cluster }) => {
  const label = "GET /admin/ui-dashboard"
  const strict = JSON.stringify({ [label]: { requests: 2, seconds: 60, burst: 0 } })
  const [usual] = await cluster.boot(1, { limited: true })
  const [limited] = await cluster.boot(1, { limited: true, config: { STARLING_RATE_LIMITS: strict } })
  const statuses = []
  for (const root of [...roots, ...roots]) statuses.push((await send(limited!, `${root}/ui-dashboard`)).status)
  expect(statuses).toEqual([200, 200, 429, 429])
  expect((await send(limited!, "/admin/login")).status).toBe(200)
  const { status, headers } = await send(usual!, "/admin/ui-dashboard")
  const { requests, burst } = routeRateLimits.get(label)!
  const named = ["limit", "scope"].map(name => headers.get(`x-ratelimit-${name}`))
  expect([status, ...named]).toEqual([200, String(requests + burst), "route"])
})

test("the page calls routes that the contract has, by their names", async () => {
  const folder = join(project, "web/operator")
  const names = (await readdir(folder, { recursive: true })).filter(name => /\.tsx?$/.test(name) && name !== "wire.ts")
  const texts = await Promise.all(names.map(name => readFile(join(folder, name), "utf8")))
  const called = new Set(
    texts.flatMap(text => [...text.matchAll(/"((?:GET|POST|PUT|PATCH|DELETE) \/[^"]*)"/g)].map(([, name]) => name!)),
  )
  const known = new Set(
    Object.values<Route>({ ...operatorRoutes, ...routes }).map(
      ({ method, path, mount, takesRest }) =>
        `${method} ${mount === "operators" ? path.replace(/^\/admin/, "") : `/api/v1${path}`}${takesRest ? "*" : ""}`,
    ),
  )
  expect(called.size).toBeGreaterThan(60)
  expect([...called].filter(name => !known.has(name))).toEqual([])
})

const openTab = browserForFile()

/** The browser writes down that an answer was no success. */
const withoutRefusals = (noise: readonly string[]) => noise.filter(line => !line.startsWith("Failed to load resource"))

const urlOf = (shared: SharedCluster, view = "") => `${shared.east.url}/api/v1/admin/ui-dashboard${view}`

/** The page of an operator who has signed in already. */
async function signedIn(page: Page, shared: SharedCluster, token: string): Promise<void> {
  await page.goto(`${shared.east.url}/api/v1/admin/login`)
  await page.evaluate(`sessionStorage.setItem("starling.operator", ${JSON.stringify(token)})`)
  await page.goto(urlOf(shared))
}

const hostile = `<img src=x onerror="document.title='owned'">`
const axe = readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")

const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
/** What axe objects to in what is shown now. The policy of the page lets no script in but from outside of it. */
async function objections(page: Page): Promise<string[]> {
  const session = await page.context().newCDPSession(page)
  const run = async <T>(expression: string): Promise<T> => {
    const { result, exceptionDetails } = await session.send("Runtime.evaluate", {
      expression,
      awaitPromise: true,
      returnByValue: true,
    })
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text)
    return result.value as T
  }
  await run(await axe)
  const found = await run<string[]>(`axe.run(document, { runOnly: ${JSON.stringify(tags)} }).then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ": " + nodes.slice(0, 3).map(({ html }) => html.slice(0, 200)).join(" | ")))`)
  const tooWide = await run<number>("document.documentElement.scrollWidth - document.documentElement.clientWidth")
  await session.detach()
  return tooWide > 0 ? [...found, `${tooWide} pixels wider than the screen`] : found
}

const view = (page: Page, name: string) => page.evaluate(`location.hash = ${JSON.stringify(`#/${name}`)}`)
const heading = (page: Page, name: string | RegExp) => page.getByRole("heading", { level: 1, name }).waitFor()
const said = (page: Page, words: string | RegExp) =>
  page.getByRole("status").filter({ hasText: words }).first().waitFor()
const press = (page: Page, name: string | RegExp) => page.getByRole("button", { name }).click()

/** Until the next step of thirty seconds begins: a code is taken once. */
const codeOf = (secret: string, steps = 0) =>
  generateSync({ secret, epoch: Math.floor(Date.now() / 1_000) + 30 * steps })

test("an operator signs in for the first time, finds a user, acts on a report, blocks an address, and begins and ends a maintenance", async ({
  shared,
  skip,
}) => {
  const name = shared.newName("root")
  const password = "first-password-of-this-operator"
  await shared.sql`INSERT INTO operators (name, password_hash) VALUES (${name}, ${await hash(password)})`
  const { ada, lin: mallory, channel } = await sharedServer(shared, shared.east)
  await ada.on(shared.east).createMessage({ channel_id: channel.id, content: "hello everybody" })
  const message = await mallory
    .on(shared.east)
    .createMessage({ channel_id: channel.id, content: `buy this ${hostile}` })
  await ada.on(shared.west).reportMessage({
    message_id: message.id,
    channel_id: channel.id,
    reason: `spam ${hostile}`,
    category: "spam",
  })
  const socket = await identified(shared.west, mallory.token)

  const { page, noise } = await openTab(skip)
  await page.goto(`${shared.east.url}/admin/login`)
  const signIn = async (given: string) => {
    await page.getByLabel("Name").fill(name)
    await page.getByLabel("Password").fill(given)
    await press(page, "Continue")
  }
  await signIn("another password")
  await page.getByRole("alert").filter({ hasText: "Invalid credentials" }).waitFor()
  await signIn(password)
  await heading(page, "Set up your second factor")
  expect(await objections(page)).toEqual([])
  const secret = (await page.locator(".secret code").innerText()).replaceAll(" ", "")
  await page.getByLabel("Code", { exact: true }).fill(codeOf(secret))
  await press(page, "Turn on and sign in")
  await heading(page, "Your backup codes")
  const codes = await page.locator(".codes code").allInnerTexts()
  expect(codes).toHaveLength(10)
  expect(codes.every(code => /^[0-9A-F]{8}$/.test(code))).toBe(true)
  const download = page.waitForEvent("download")
  await press(page, "Download")
  expect(await readFile(await (await download).path(), "utf8")).toBe(`${codes.join("\n")}\n`)
  await page.getByLabel("I have kept them").check()
  await press(page, "Continue")
  await heading(page, "Now")

  // The keyboard alone: to the users, into the search, onto the row, into it.
  await page.keyboard.press("g")
  await page.keyboard.press("u")
  await heading(page, "Users")
  await page.keyboard.type(mallory.username)
  await page.getByRole("link", { name: mallory.username }).waitFor()
  await page.keyboard.press("Tab")
  await page.keyboard.press("j")
  await page.keyboard.press("Enter")
  await heading(page, new RegExp(mallory.username))
  await page.getByLabel("For operators only").fill(hostile)
  await press(page, "Save the notes")
  await said(page, "The notes are saved.")

  await view(page, "reviews")
  await page.getByText("The message in context").waitFor()
  await page.locator(".context").filter({ hasText: "hello everybody" }).filter({ hasText: hostile }).waitFor()
  await page.keyboard.press("a")
  const dialog = page.getByRole("dialog")
  await dialog.getByText("1 session ends").first().waitFor()
  expect(await objections(page)).toEqual([])
  await dialog.getByLabel("Reason").fill("Advertising")
  await dialog.getByRole("button", { name: "Lock and close the report" }).click()
  await said(page, `${mallory.username} is locked and signed out everywhere.`)
  expect((await socket.ended).code).toBe(4004)
  expect(await refusal(clientAt(shared.west).login({ username: mallory.username, password: mallory.password }))).toBe(
    "account_locked",
  )
  await page.getByText("Nothing waits.").waitFor()
  // What was locked is unlocked by one key.
  await page.keyboard.press("u")
  await said(page, `${mallory.username} may sign in again.`)
  expect((await clientAt(shared.west).login({ username: mallory.username, password: mallory.password })).status).toBe(
    "success",
  )

  await view(page, "blocks")
  await heading(page, "Blocks")
  await page.keyboard.press("c")
  await dialog.getByLabel("Address or range").fill("203.0.113.0/24")
  await dialog.getByText("256 addresses.").waitFor()
  await dialog.getByRole("button", { name: "Block", exact: true }).click()
  await page.getByRole("row").filter({ hasText: "203.0.113.0/24" }).waitFor()
  expect(await shared.sql`SELECT 1 FROM address_blocks WHERE address = '203.0.113.0/24'`).toHaveLength(1)
  await press(page, "Unblock 203.0.113.0/24")
  await page.getByText("No address is blocked.").waitFor()

  const listener = await identified(shared.west, ada.token)
  await view(page, "server-state")
  await page.getByLabel("State", { exact: true }).selectOption("maintenance")
  await page.getByLabel("Message to everybody").fill(`Back soon ${hostile}`)
  const preview = page.getByRole("region", { name: "What users will see" })
  await preview.getByText(`Back soon ${hostile}`).first().waitFor()
  await press(page, "Apply")
  await dialog.getByRole("button", { name: "Begin" }).click()
  expect((await listener.ended).code).toBe(4016)
  const headers = { authorization: `Bearer ${ada.token}` }
  const statusOf = async () => (await fetch(`${shared.west.url}/api/v1/users/@me`, { headers })).status
  await until("requests are refused", async () => (await statusOf()) === 503)
  // The page itself is open meanwhile, and ends it.
  await page.reload()
  await page.getByLabel("State", { exact: true }).selectOption("running")
  await press(page, "Apply")
  await until("requests are served", async () => (await statusOf()) === 200)

  await view(page, "trail")
  for (const words of ["Lock user", "Block address", "203.0.113.0/24", mallory.id])
    await page.locator("table.list").getByText(words, { exact: true }).first().waitFor()
  await press(page, "Sign out")
  await heading(page, "Sign in")
  expect(await page.evaluate("[sessionStorage.length, document.cookie]")).toEqual([0, ""])
  await page.goto(urlOf(shared))
  await heading(page, "Sign in")
  expect(await page.title()).not.toContain("owned")
  expect(withoutRefusals(noise)).toEqual([])
})

/** Every view, and what is in its heading when it is there. */
const views = {
  now: "Now",
  telemetry: "Telemetry",
  log: "Log",
  "server-state": "Server state",
  "users?q=a": "Users",
  "users?list=deletions": "Users",
  reviews: "Reports",
  "reviews?kind=users": "Reports",
  "reviews?kind=files": "Reports",
  tickets: "Tickets",
  blocks: "Blocks",
  "blocks?kind=files": "Blocks",
  "blocks?kind=uploaders": "Blocks",
  names: "Banned names",
  automod: "Auto-moderation",
  "access-tokens": "Access tokens",
  trail: "Trail",
  security: "Your account",
}

/** At least a row in each list. @returns the places of those that have a view of their own */
async function somethingToShow(shared: SharedCluster, operator: TestOperator): Promise<string[]> {
  const { ada, lin, channel, server } = await sharedServer(shared, shared.east)
  const message = await lin.on(shared.east).createMessage({ channel_id: channel.id, content: hostile })
  const rest = ada.on(shared.east)
  const reason = `Look at this ${hostile}`
  await rest.reportMessage({ message_id: message.id, channel_id: channel.id, reason })
  await rest.reportUser({ user_id: lin.id, reason })
  await rest.reportFile({ hash_value: "ab".repeat(32), reason })
  await rest.sendFeedback({ content: `It is very good. ${hostile}`, rating: 4, category: "praise" })
  const act = operator.on(shared.east)
  await act.blockAddress({ ip_address: "198.51.100.7", reason, duration_hours: 2 })
  await act.banUsername({ pattern: "gladys.*", is_regex: true, reason: "Reserved" })
  await act.blockHash({ hash_value: "cd".repeat(32), reason })
  await act.blockUploader({ user_id: lin.id, reason })
  await act.createOperatorAutomodRule({
    server_id: server.id,
    name: "Words",
    rule_type: "keyword",
    config: { keywords: ["gladys"] },
    actions: [{ action_type: "delete_message" }],
  })
  const [ticket] = await act.listTickets({})
  return [`users/${lin.id}`, `tickets/${ticket!.id}`, `automod?server=${server.id}`]
}

test("axe objects to nothing in any view, light or dark, and nothing is wider than the screen of a phone", async ({
  shared,
  skip,
}) => {
  const operator = await newOperator(shared)
  const places = await somethingToShow(shared, operator)
  const faults: string[] = []
  const { page, noise } = await openTab(skip)
  const judge = async (name: string) => {
    for (const [width, colorScheme] of [
      [1280, "light"],
      [390, "dark"],
    ] as const) {
      await page.emulateMedia({ colorScheme })
      await page.setViewportSize({ width, height: 844 })
      faults.push(...(await objections(page)).map(fault => `${name} ${width} ${colorScheme}: ${fault}`))
    }
  }
  await signedIn(page, shared, operator.token)
  for (const [name, title] of [...Object.entries(views), ...places.map(place => [place, ""] as const)]) {
    await view(page, name)
    await heading(page, new RegExp(`^${title}`))
    await page.locator(".loading").first().waitFor({ state: "hidden" })
    await judge(name)
    for (const alert of await page.getByRole("alert").allInnerTexts()) faults.push(`${name}: ${alert}`)
  }
  await page.keyboard.press("?")
  await page.getByRole("dialog", { name: "Keys" }).waitFor()
  await judge("keys")
  faults.push(...withoutRefusals(noise))
  expect(faults).toEqual([])
})

test("a session that ended leads to the sign-in, and its token is forgotten", async ({ shared, skip }) => {
  const operator = await newOperator(shared)
  const { page } = await openTab(skip)
  await signedIn(page, shared, operator.token)
  await view(page, "trail")
  await heading(page, "Trail")
  await shared.sql`DELETE FROM operator_sessions WHERE operator_id = ${operator.id}`
  await view(page, "security")
  await heading(page, "Sign in")
  expect(await page.evaluate("sessionStorage.length")).toBe(0)
})

test("of a list of thousands of rows only those are in the document that can be seen, and the last is reached", async ({
  shared,
  skip,
}) => {
  const operator = await newOperator(shared)
  const rows = 3_000
  await shared.sql`
    INSERT INTO operator_trail (operator_id, operator, action, target, input, address, outcome)
    SELECT ${operator.id}, ${operator.name}, 'lockUser', 'target ' || n, '{}', '127.0.0.1', 200
    FROM generate_series(1, ${rows}) AS n`
  const { page, noise } = await openTab(skip)
  await signedIn(page, shared, operator.token)
  await view(page, `trail?operator=${operator.name}`)
  const shown = page.locator("table.list tbody tr[data-row]")
  await page.getByText(`target ${rows}`, { exact: true }).waitFor()
  await page.keyboard.press("j")
  // The end of what is loaded; the next page comes by itself.
  const last = page.getByText("target 1", { exact: true })
  await until("the last row is shown", async () => {
    await page.keyboard.press("End")
    expect(await shown.count()).toBeLessThan(80)
    return last.isVisible()
  })
  expect(await page.locator("table.list").getAttribute("aria-rowcount")).toBe(String(rows + 1))
  await last.click()
  await page.getByRole("dialog", { name: "Lock user" }).getByText("target 1", { exact: true }).waitFor()
  expect(withoutRefusals(noise)).toEqual([])
})

test("a rule says what it would do, and comes back for those whom it was for", async ({ shared, skip }) => {
  const operator = await newOperator(shared)
  const { ada, server } = await sharedServer(shared, shared.east)
  const { id: role } = await ada.on(shared.east).createRole({ server_id: server.id, name: "Newcomers" })
  const rest = operator.on(shared.east)
  await rest.createOperatorAutomodRule({
    server_id: server.id,
    name: "Words",
    rule_type: "keyword",
    config: { keywords: ["gladys"] },
    actions: [{ action_type: "delete_message" }],
    applied_roles: [role],
  })
  const { page, noise } = await openTab(skip)
  await signedIn(page, shared, operator.token)
  await view(page, `automod?server=${server.id}`)
  await page.getByRole("button", { name: "Words", exact: true }).click()
  const editor = page.getByRole("dialog", { name: "Edit the rule" })
  await editor.getByText(role, { exact: true }).waitFor()
  await editor.getByLabel("A message", { exact: true }).fill("hello gladys")
  await editor.getByRole("button", { name: "Test" }).click()
  await editor.getByText("breaks the rule").waitFor()
  await editor.locator("output").filter({ hasText: "Refuse the message" }).waitFor()
  await editor.getByRole("button", { name: "Cancel" }).click()
  await press(page, "Delete Words")
  await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click()
  await said(page, "The rule Words is deleted.")
  const rules = () => rest.listOperatorAutomodRules({ server_id: server.id })
  expect(await rules()).toEqual([])
  await press(page, /^Undo/)
  await until("it is back", async () => (await rules()).length === 1)
  expect(await rules()).toMatchObject([{ name: "Words", applied_roles: [role] }])
  expect(withoutRefusals(noise)).toEqual([])
})

test("an operator who decides reports while the list goes on misses none", async ({ shared, skip }) => {
  const operator = await newOperator(shared)
  const { ada } = await sharedServer(shared, shared.east)
  const marked = `many ${operator.name}`
  await shared.sql`
    INSERT INTO hash_reports (id, hash_value, reporter_id, reason, reported_at, block_uploader, counts)
    SELECT 9200000000000000000 + n, ${operator.name} || n, ${ada.id}, ${marked}, extract(epoch FROM now())::bigint, false, false
    FROM generate_series(1, 206) AS n`
  onTestFinished(async () => void (await shared.sql`DELETE FROM hash_reports WHERE reason = ${marked}`))
  const rest = operator.on(shared.east)
  const { page, noise } = await openTab(skip)
  await signedIn(page, shared, operator.token)
  const rows = page.locator("table.list tbody tr[data-row]")
  await view(page, "reviews?kind=files")
  await rows.filter({ hasText: marked }).first().waitFor()
  const pending = async () => (await rest.countHashReports({})).pending
  const before = await pending()
  for (let i = 0; i < 3; i++) {
    await page.keyboard.press("j")
    await page.keyboard.press("d")
  }
  await until("they are decided", async () => (await pending()) === before - 3)
  await until("the list holds all that wait", async () => {
    await page.keyboard.press("End")
    return (await page.locator("table.list").getAttribute("aria-rowcount")) === String(before - 3 + 1)
  })
  expect(withoutRefusals(noise)).toEqual([])
})

test("new backup codes are shown although the session of before cannot be ended", async ({ shared, skip }) => {
  const operator = await newOperator(shared)
  const password = "the password of this operator"
  await shared.sql`UPDATE operators SET password_hash = ${await hash(password)} WHERE id = ${operator.id}`
  const { page, noise } = await openTab(skip)
  await signedIn(page, shared, operator.token)
  await view(page, "security")
  await press(page, "Set it up …")
  await page.getByLabel("Your password").fill(password)
  await press(page, "Continue")
  const secret = (await page.locator(".secret code").innerText()).replaceAll(" ", "")
  await page.route("**/logout", route => route.abort())
  await page.getByLabel("The code that it shows").fill(codeOf(secret).replace(/^.../, "$& "))
  await press(page, "Turn it on")
  await page.getByRole("heading", { name: "Your backup codes" }).waitFor()
  expect(await page.locator(".codes code").count()).toBe(10)
  await page.getByLabel("I have kept them").check()
  await press(page, "Continue")
  await page.getByText("10 backup codes are left.").waitFor()
  expect(await page.evaluate(`sessionStorage.getItem("starling.operator")`)).not.toBe(operator.token)
  expect(withoutRefusals(noise)).toEqual([])
})
