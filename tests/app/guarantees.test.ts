/** What a person sees of the guarantees: nothing is lost or doubled, and the page says how it stands. */
import type { Page } from "playwright-core"
import { vi } from "vitest"
import { openLink } from "../chaos/proxy.ts"
import { browserForFile } from "../kit/browser.ts"
import { gauge } from "../kit/cluster.ts"
import type { Person } from "../kit/person.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

vi.setConfig({ testTimeout: 180_000 })

const openTab = browserForFile()

async function pageOf(skip: (why: string) => never, url: string, person: Person, hash: string): Promise<Page> {
  const { page } = await openTab(skip)
  await page.addInitScript(`localStorage.setItem("starling.app.token", ${JSON.stringify(person.token)})`)
  page.setDefaultTimeout(30_000)
  await page.goto(`${url}/app${hash}`)
  await page.getByRole("textbox", { name: /^Message / }).waitFor()
  return page
}

const textsOf = (page: Page): Promise<string[]> => page.locator(".message[id] .rich").allInnerTexts()

test("a web worker is killed with -9 while two people write: nothing is lost or doubled, and the dot blinks", async ({
  cluster,
  skip,
}) => {
  const program = await cluster.processes(2)
  const { ada, lin, server, channel } = await sharedServer(cluster, program)
  const hash = `#/servers/${server.id}/${channel.id}`
  const pages = [await pageOf(skip, program.url, ada, hash), await pageOf(skip, program.url, lin, hash)]
  const states = await Promise.all(
    pages.map(async page => {
      const seen = new Set<string>()
      await page.exposeFunction("noteState", (state: string) => seen.add(state))
      await page.evaluate(`new MutationObserver(() =>
        noteState(document.querySelector(".dot").className)).observe(document.querySelector(".dot"), { attributes: true })`)
      return seen
    }),
  )
  const said: string[] = []
  let killed = 0
  for (let i = 0; i < 24; i++) {
    const who = i % 2
    const text = `message ${i} of ${who}`
    said.push(text)
    const field = pages[who]!.getByRole("textbox", { name: /^Message / })
    await field.fill(text)
    await field.press("Enter")
    // One after the other, so that each session loses its worker once.
    if (i === 6 || i === 14) {
      const slot = `web ${killed++}`
      const victim = (await program.workers()).find(one => one.slot === slot)
      program.kill(victim!.pid, "SIGKILL")
    }
  }
  for (const page of pages) {
    await until(
      "everything has been sent",
      async () => (await page.locator(".message.pending, .message.failed").count()) === 0,
      {
        timeoutMs: 60_000,
      },
    )
    await until("everything is there", async () => (await textsOf(page)).length >= said.length, { timeoutMs: 60_000 })
    expect((await textsOf(page)).toSorted()).toEqual(said.toSorted())
    await page.locator(".dot.live").waitFor()
  }
  // Everybody sees one order.
  expect(await textsOf(pages[0]!)).toEqual(await textsOf(pages[1]!))
  expect(states.some(seen => [...seen].some(state => state.includes("returning")))).toBe(true)
})

test("a server that restarts, and an absence longer than a session lives: each is said, what was written is sent once, and nothing old stays", async ({
  cluster,
  skip,
}) => {
  const [first] = await cluster.boot(1)
  const { ada, lin, server, channel } = await sharedServer(cluster, first)
  const channel_id = channel.id
  let port = Number(new URL(first!.url).port)
  const link = await openLink("page", () => ({ host: "127.0.0.1", port }))
  const { id: oldest } = await lin.on(first!).createMessage({ channel_id, content: "the oldest" })
  for (let i = 0; i < 120; i += 20)
    await Promise.all(
      Array.from({ length: 20 }, (_, k) => lin.on(first!).createMessage({ channel_id, content: `line ${i + k}` })),
    )
  const place = `#/servers/${server.id}/${channel_id}`
  const page = await pageOf(skip, `http://127.0.0.1:${link.port}`, ada, place)
  const begun: string[] = []
  page.on("websocket", socket =>
    socket.on("framereceived", ({ payload }) => {
      const { t } = JSON.parse(String(payload)) as { t?: string }
      if (t === "READY" || t === "RESUMED") begun.push(t)
    }),
  )
  const message = (text: string) => page.locator(".message[id]", { hasText: text })
  await page.locator(".dot.live").waitFor()
  // It has opened at the first unread message, which is the oldest.
  await page.getByRole("button", { name: /Go to the newest/ }).click()
  await message("line 119").waitFor()

  await first!.stop()
  await page.locator(".dot.returning").waitFor()
  for (const text of ["once, during the restart", "and once more"]) {
    await page.getByRole("textbox", { name: /^Message / }).fill(text)
    await page.keyboard.press("Enter")
    await page.locator(".message.pending", { hasText: text }).waitFor()
  }
  const [second] = await cluster.boot(1, { topology: { gateway: { resumeWindowMs: 1_000 } } })
  port = Number(new URL(second!.url).port)
  await page.locator(".dot.live").waitFor({ timeout: 60_000 })
  await message("and once more").waitFor()
  await lin.on(second!).createMessage({ channel_id, content: "welcome back" })
  await message("welcome back").waitFor()
  const said = await lin.on(second!).listMessages({ channel_id, limit: "4" })
  const expected = ["line 119", "once, during the restart", "and once more", "welcome back"]
  expect(said.map(({ content }) => content).toReversed()).toEqual(expected)
  expect((await textsOf(page)).slice(-3)).toEqual(expected.slice(1))

  // Longer than that the server keeps nothing of the session: what is shown is read again, old messages as well, whether
  // somebody went back to them or was led there.
  await until("all has been read", async () => {
    await page.locator(".scroller").evaluate(one => (one.scrollTop = 0))
    return (await message("the oldest").count()) > 0
  })
  await page.evaluate(`location.hash = "${place}/${oldest}"`)
  await page.locator(".message.marked", { hasText: "the oldest" }).waitFor()
  link.set({ cut: true })
  await page.getByText(/^No connection\. This is from /).waitFor()
  await until("the session is over", async () => (await gauge(second!, "starling_gateway_sessions")) === 0)
  await lin.on(second!).editMessage({ channel_id, message_id: oldest, content: "the oldest, in other words" })
  await lin.on(second!).createMessage({ channel_id, content: "while you were away" })
  begun.length = 0
  link.set({})
  await page.locator(".dot.live").waitFor({ timeout: 60_000 })
  await message("the oldest, in other words").waitFor()
  expect([begun, await page.getByText(/^No connection/).count()]).toEqual([["READY"], 0])
  await until("the newest are shown", async () => {
    await page.locator(".scroller").evaluate(one => (one.scrollTop = one.scrollHeight))
    return (await message("while you were away").count()) > 0
  })
  expect((await textsOf(page)).slice(-2)).toEqual(["welcome back", "while you were away"])
  await link.close()
})
