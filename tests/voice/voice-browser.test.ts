/**
 * Two browsers on two workers: what they tell one another over the gateway is enough to speak to
 * one another.
 */
import { readFile } from "node:fs/promises"
import { createServer } from "node:http"
import { once } from "node:events"
import type { AddressInfo } from "node:net"
import type { Browser, Page } from "playwright-core"
import { beforeAll } from "vitest"
import { startBrowser } from "../kit/browser.ts"
import type { Endpoint } from "../kit/person.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

/** What the page offers; see tests/fixtures/voice/page.js. */
interface VoicePage {
  enter(options: { gateway: string; token: string; channel: string }): Promise<string>
  offer(target: string): Promise<string>
  answer(target: string): Promise<string>
  audioPackets(): Promise<number>
  say(words: string): void
  heard(): string[]
  speak(speaking: boolean): void
  nextSpeaking(): Promise<unknown>
  leave(): void
  nextLeaving(user: string): Promise<unknown>
}

const types = { html: "text/html; charset=utf-8", js: "text/javascript" }

async function servePages() {
  const server = createServer((request, response) => {
    const name = request.url === "/page.js" ? "page.js" : "index.html"
    readFile(new URL(`../fixtures/voice/${name}`, import.meta.url)).then(
      body => response.writeHead(200, { "content-type": types[name === "page.js" ? "js" : "html"] }).end(body),
      () => response.writeHead(500).end(),
    )
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }
}

let browser: Awaited<ReturnType<typeof startBrowser>>
// Where there is none yet it is installed, which takes its time.
beforeAll(async () => {
  browser = await startBrowser()
  return async () => {
    if (typeof browser !== "string") await browser.close()
  }
}, 15 * 60_000)

const gatewayOf = ({ url }: Endpoint) => `${url.replace("http", "ws")}/gateway`

/** Calls a function of a page. */
const on =
  (page: Page) =>
  <K extends keyof VoicePage>(name: K, ...words: Parameters<VoicePage[K]>) =>
    page.evaluate(
      ([name, words]) =>
        (globalThis as unknown as { voice: Record<string, (...words: unknown[]) => unknown> }).voice[name]!(...words),
      [name, words] as const,
    ) as Promise<Awaited<ReturnType<VoicePage[K]>>>

test("two browsers on different workers exchange offer, answer and candidates, and then hear one another", async ({
  cluster,
  skip,
}) => {
  // Where every change is checked it may not be left out unnoticed.
  if (typeof browser === "string" && process.env["CI"]) throw new Error(browser)
  if (typeof browser === "string") return skip(browser)
  const pages = await servePages()
  try {
    // Nobody outside this machine is asked anything.
    const [east, west] = await cluster.boot(2, { config: { STARLING_VOICE_STUN_URLS: "," } })
    const { ada, lin, server } = await cluster.seed(sharedServer)
    const { id: channel } = await ada.on(east!).createChannel({ server_id: server.id, name: "hall", type: "voice" })
    const people = [
      { person: ada, worker: east! },
      { person: lin, worker: west! },
    ]
    const [adas, lins] = await Promise.all(
      people.map(async ({ person, worker }) => {
        const page = await (await (browser as Browser).newContext()).newPage()
        await page.goto(pages.url)
        const voice = on(page)
        const session = await voice("enter", { gateway: gatewayOf(worker), token: person.token, channel })
        return { voice, session }
      }),
    )
    const [toLin, toAda] = await Promise.all([adas!.voice("offer", lin.id), lins!.voice("answer", ada.id)])
    // Each was told whose voice session the other's description belongs to.
    expect([toLin, toAda]).toEqual([lins!.session, adas!.session])

    await adas!.voice("say", "can you hear me?")
    await until("the words and their echo", async () => (await adas!.voice("heard")).length > 0)
    expect(await lins!.voice("heard")).toEqual(["can you hear me?"])
    expect(await adas!.voice("heard")).toEqual(["echo: can you hear me?"])
    for (const { voice } of [adas!, lins!])
      await until("sound", async () => (await voice("audioPackets")) > 10, { timeoutMs: 30_000 })

    const speaking = lins!.voice("nextSpeaking")
    await adas!.voice("speak", true)
    expect(await speaking).toEqual({ channel_id: channel, user_id: ada.id, speaking: true })
    const leaving = lins!.voice("nextLeaving", ada.id)
    await adas!.voice("leave")
    expect(await leaving).toMatchObject({ server_id: server.id })
  } finally {
    pages.server.close()
  }
})
