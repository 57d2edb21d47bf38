/** The page without a connection: it opens with what it had, sends what was written, and forgets at sign-out. */
import type { Page } from "playwright-core"
import { vi } from "vitest"
import { openLink } from "../chaos/proxy.ts"
import { browserForFile } from "../kit/browser.ts"
import { send } from "../kit/exchange.ts"
import { attentive, operatorOf } from "../kit/operator.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

vi.setConfig({ testTimeout: 120_000 })

const openTab = browserForFile()

/** What the browser keeps: when the state was current, messages that wait, and what the service worker has. */
const kept = (page: Page) =>
  page.evaluate<{
    at: number
    histories: number
    contents: string[]
    waiting: number
    files: string[]
    workers: number
  }>(`(async () => {
    const database = await new Promise((resolve, reject) => {
      const request = indexedDB.open("starling", 1)
      request.onsuccess = () => resolve(request.result)
      request.onerror = () => reject(request.error)
    })
    const read = (name, act) => new Promise(resolve => {
      const request = act(database.transaction(name).objectStore(name))
      request.onsuccess = () => resolve(request.result)
    })
    const found = await read("kept", store => store.get("state"))
    const waiting = await read("outbox", store => store.count())
    database.close()
    const files = []
    for (const name of await caches.keys())
      for (const request of await (await caches.open(name)).keys()) files.push(new URL(request.url).pathname)
    const histories = found ? [...found.state.servers.values()].flatMap(server => [...(server?.histories.values() ?? [])]) : []
    const contents = histories.flatMap(({ messages }) => [...messages.values()].map(({ content }) => content))
    return { at: found?.at ?? 0, histories: histories.length, contents, waiting, files, workers: (await navigator.serviceWorker.getRegistrations()).length }
  })()`)

test("offline it opens with what it had and says how old that is; what was written goes out once and in order", async ({
  cluster,
  skip,
}) => {
  const [east] = await cluster.boot(1, { topology: attentive })
  const without = (await cluster.boot(1, { config: { STARLING_APP_OFFLINE_ENABLED: "false" } }))[0]!
  const { ada, lin, server, channel } = await sharedServer(cluster, east)
  let port = Number(new URL(east!.url).port)
  const link = await openLink("page", () => ({ host: "127.0.0.1", port }))
  const place = `http://127.0.0.1:${link.port}/app`

  const { page, context } = await openTab(skip)
  await context.grantPermissions(["notifications"])
  await page.goto(place)
  await page.evaluate(`localStorage.setItem("starling.app.token", ${JSON.stringify(ada.token)})`)
  await page.goto(`${place}#/servers/${server.id}/${channel.id}`)
  await page.reload()
  const field = page.getByRole("textbox", { name: /^Message / })
  const write = async (text: string) => {
    await field.fill(text)
    await field.press("Enter")
  }
  const message = (text: string) => page.locator(".message", { hasText: text })
  await field.waitFor()
  await write("before the tunnel")
  await page.locator(".message[id]", { hasText: "before the tunnel" }).waitFor()
  await page.evaluate("navigator.serviceWorker.ready.then(() => {})")
  const writtenAt = Date.now()
  await until("it is kept", async () => {
    const { at, histories, files } = await kept(page)
    return at > writtenAt && histories > 0 && files.includes("/app")
  })
  // Files of the page and its document; no answer of the API.
  expect((await kept(page)).files.filter(path => !/^\/app(\/assets\/[\w.-]+)?$/.test(path))).toEqual([])

  link.set({ cut: true })
  await page.locator(".dot.returning").waitFor()
  for (const text of ["first in the dark", "second in the dark"]) await write(text)
  // At once: what was written a moment before is kept.
  await page.reload()
  await page.locator(".message[id]", { hasText: "before the tunnel" }).waitFor()
  await page.getByText(/^No connection\. This is from /).waitFor()
  await write("third in the dark")
  for (const text of ["first", "second", "third"])
    await message(`${text} in the dark`).getByText("waits for the connection").waitFor()
  await until("they are kept", async () => (await kept(page)).waiting === 3)
  // A place that was never opened says so.
  link.set({})
  await page.locator(".dot.live").waitFor({ timeout: 60_000 })
  await page.locator(".message[id]", { hasText: "third in the dark" }).waitFor()
  const said = async () =>
    (await lin.on(east!).listMessages({ channel_id: channel.id })).map(({ content }) => content).toReversed()
  const all = ["before the tunnel", "first in the dark", "second in the dark", "third in the dark"]
  expect(await said()).toEqual(all)
  // What is kept stays in sight while what there is now is being read. It is kept every few seconds.
  await until("the last message is kept", async () => (await kept(page)).contents.includes(all.at(-1)!))
  let letRead = () => {}
  const mayRead = new Promise<void>(resolve => (letRead = resolve))
  const history = /\/messages\?/
  await page.route(history, route => mayRead.then(() => route.continue()))
  await page.reload()
  await page.locator(".message[id]", { hasText: "third in the dark" }).waitFor()
  await page.locator(".dot.live").waitFor()
  expect(await page.locator(".message[id]", { hasText: "in the dark" }).count()).toBe(3)
  const read = page.waitForResponse(history)
  letRead()
  await read
  await page.unroute(history)
  expect([await said(), (await kept(page)).waiting]).toEqual([all, 0])
  expect(await page.locator(".message", { hasText: "in the dark" }).count()).toBe(3)

  // Maintenance ends no session: the page says it, keeps what is written, and comes back by itself.
  const operator = operatorOf(cluster)
  await operator.setState({ state: "maintenance", message: "New disks until four" })
  await page.getByText("Maintenance. This page comes back by itself. New disks until four").waitFor()
  await page.locator(".dot.returning").waitFor()
  await write("during maintenance")
  await message("during maintenance").getByText("waits for the connection").waitFor()
  await operator.setState({ state: "running" })
  await page.locator(".dot.live").waitFor({ timeout: 30_000 })
  await page.locator(".message[id]", { hasText: "during maintenance" }).waitFor()
  expect(await page.getByText("Maintenance.").count()).toBe(0)

  // A push is shown by the service worker, also where no page is open.
  const devtools = await context.newCDPSession(page)
  let registrationId = ""
  devtools.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => {
    registrationId = registrations.find(one => one.scopeURL === place)?.registrationId ?? registrationId
  })
  await devtools.send("ServiceWorker.enable")
  await until("the worker is known", async () => registrationId !== "")
  const note = {
    author: "Lin",
    server: "Shared",
    channel: "general",
    text: "Come back",
    path: "settings/privacy",
    tag: "1",
    at: 1,
  }
  const push = { origin: new URL(place).origin, registrationId, data: JSON.stringify(note) }
  await page.goto("about:blank")
  await devtools.send("ServiceWorker.deliverPushMessage", push)
  await page.goto(place)
  const shown = () =>
    page.evaluate<string[]>(`navigator.serviceWorker.getRegistration("/app").then(one => one.getNotifications())
      .then(all => all.map(({ title, body, data }) => [title, body, data.path].join(" | ")))`)
  await until("it is shown", async () => (await shown()).length > 0)
  expect(await shown()).toEqual(["Lin (#general, Shared) | Come back | settings/privacy"])

  // While nobody looks the page shows what is for its person, with the text as they want it.
  await page.evaluate(`localStorage.setItem("starling.notifications", '{"isOn":true,"hidesContent":true}')`)
  await page.reload()
  await page.locator(".dot.live").waitFor()
  await page.evaluate(`Object.defineProperty(document, "hidden", { get: () => true })`)
  const dm = await lin.on(east!).openDirectChannel({ recipient_id: ada.id })
  await page.getByText(lin.username).first().waitFor()
  const { id } = await lin.on(east!).createMessage({ channel_id: dm.id, content: "psst" })
  await until("it is shown, too", async () => (await shown()).length > 1)
  expect(await shown()).toContain(`${lin.username} |  | dms/${dm.id}/${id}`)
  await until("the tab counts it", async () => (await page.title()).startsWith("(1) "))

  // The operator wants no more of this: what there is goes with the next visit. Then nothing is left after sign-out.
  port = Number(new URL(without.url).port)
  link.reset()
  await page.reload()
  await until("nothing is registered", async () => (await kept(page)).workers === 0, { timeoutMs: 30_000 })
  await page.locator(".dot.live").waitFor()
  await page.goto(`${place}#/settings`)
  await page.getByRole("button", { name: "Sign out" }).click()
  await page.getByRole("button", { name: "Sign in", exact: true }).waitFor()
  await until("nothing is kept", async () => (await kept(page)).at === 0)
  await link.close()

  const [manifest, ending] = [
    await send(east!, "/app/manifest.webmanifest"),
    await send(without, "/app/service-worker.js"),
  ]
  expect(ending.text).toContain("unregister")
  expect(manifest.headers.get("content-type")).toBe("application/manifest+json")
  for (const { src } of (JSON.parse(manifest.text) as { icons: { src: string }[] }).icons)
    expect((await send(east!, `/app/${src}`)).headers.get("content-type")).toMatch(/^image\//)
})

test("a page that nobody uses says idle after five minutes, and online with the next key", async ({
  cluster,
  skip,
}) => {
  const [east] = await cluster.boot(1)
  const { ada, lin, server, channel } = await sharedServer(cluster, east)
  const { page } = await openTab(skip)
  await page.clock.install()
  await page.addInitScript(`localStorage.setItem("starling.app.token", ${JSON.stringify(ada.token)})`)
  await page.goto(`${east!.url}/app#/servers/${server.id}/${channel.id}`)
  await page.getByRole("textbox", { name: /^Message / }).waitFor()
  await page.locator(".dot.live").waitFor()
  const status = async () => (await lin.on(east!).getPresence({ user_id: ada.id })).status
  await until("Ada is seen", async () => (await status()) === "online")
  await page.clock.fastForward(4 * 60_000)
  expect(await status()).toBe("online")
  await page.clock.fastForward(80_000)
  await until("Ada is idle", async () => (await status()) === "idle")
  await page.keyboard.press("Shift")
  await until("Ada is back", async () => (await status()) === "online")
})
