/** What a person sees of the guarantees: nothing is lost or doubled, and the page says how it stands. */
import type { Page } from "playwright-core"
import { vi } from "vitest"
import { browserForFile } from "../kit/browser.ts"
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
