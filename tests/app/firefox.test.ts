/** The page in a second engine: what all others try in Chromium, once in short. */
import { vi } from "vitest"
import { openLink } from "../chaos/proxy.ts"
import { gauge } from "../kit/cluster.ts"
import { enter, FirefoxTab } from "../kit/firefox.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

// Where there is no Firefox yet it is installed first.
vi.setConfig({ testTimeout: 300_000 })

test("in Firefox somebody signs in, sends and receives, finds it after a reload, and resumes after a lost connection", async ({
  cluster,
  skip,
}) => {
  const [east] = await cluster.boot(1)
  const { ada, lin, server, channel } = await sharedServer(cluster, east)
  const channel_id = channel.id
  const link = await openLink("page", () => ({ host: "127.0.0.1", port: Number(new URL(east!.url).port) }))
  const tab = await FirefoxTab.open(skip)
  const texts = () =>
    tab.evaluate<string[]>(`[...document.querySelectorAll(".message[id] .rich")].map(one => one.innerText)`)
  const has = (text: string) =>
    until(`there is ${text}`, async () => (await texts().catch((): string[] => [])).includes(text))

  await tab.goto(`http://127.0.0.1:${link.port}/app#/servers/${server.id}/${channel_id}`)
  await tab.click("input[autocomplete^=username]")
  await tab.type(ada.username)
  await tab.click("input[type=password]")
  await tab.type(ada.password + enter)
  await tab.until("Ada is signed in", `document.querySelector(".dot.live")`)
  await tab.click(".composer textarea")
  await tab.type(`Moin from **Firefox**${enter}`)
  await has("Moin from Firefox")
  await lin.on(east!).createMessage({ channel_id, content: "and back" })
  await has("and back")

  await tab.reload()
  await has("and back")
  expect(await texts()).toEqual(["Moin from Firefox", "and back"])
  await tab.until("it is live", `document.querySelector(".dot.live")`)
  link.set({ cut: true })
  await tab.until("it says so", `document.querySelector(".dot.returning")`)
  await lin.on(east!).createMessage({ channel_id, content: "in between" })
  await tab.click(".composer textarea")
  await tab.type(`written without a connection${enter}`)
  link.set({})
  await tab.until("it is live again", `document.querySelector(".dot.live")`)
  for (const text of ["in between", "written without a connection"]) await has(text)
  expect(await texts()).toEqual(["Moin from Firefox", "and back", "in between", "written without a connection"])
  expect(await gauge(east!, "starling_gateway_resumes_total", "invalid")).toBe(0)
  expect((await lin.on(east!).listMessages({ channel_id })).length).toBe(4)
  await link.close()
})
