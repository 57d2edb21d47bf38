/** A call in the page to chat: two browsers hear one another, and each sees what the other does. */
import type { Page } from "playwright-core"
import { vi } from "vitest"
import { browserForFile } from "../kit/browser.ts"
import type { Person } from "../kit/person.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, testWith } from "../kit/test.ts"
import { until } from "../kit/until.ts"

// Nobody outside this machine is asked anything.
vi.setConfig({ testTimeout: 300_000 })
const test = testWith({ config: { STARLING_VOICE_STUN_URLS: "," } })
const openTab = browserForFile()

/** What the page has made of connections and sockets, for the test to look at; it works the same. */
const watched = `
  window.connections = []
  window.RTCPeerConnection = class extends RTCPeerConnection {
    constructor(...given) { super(...given); connections.push(this) }
  }
  window.sockets = []
  window.WebSocket = class extends WebSocket {
    constructor(...given) { super(...given); sockets.push(this) }
  }
  window.asked = 0
  const { mediaDevices } = navigator
  const getUserMedia = mediaDevices.getUserMedia.bind(mediaDevices)
  mediaDevices.getUserMedia = given => { asked++; return getUserMedia(given) }`

/** Packets of sound that came over the connections that are open. */
const heardBy = (page: Page): Promise<number> =>
  page.evaluate(`Promise.all(connections.filter(({ connectionState }) => connectionState === "connected").map(async one => {
    let packets = 0
    for (const entry of (await one.getStats()).values()) if (entry.type === "inbound-rtp") packets += entry.packetsReceived
    return packets
  })).then(all => all.reduce((sum, one) => sum + one, 0))`)
const hearsMore = async (page: Page) => {
  const before = await heardBy(page)
  await until("sound", async () => (await heardBy(page)) > before + 10, { timeoutMs: 60_000 })
}

test("two people talk in a voice channel; muting, deafening, a lost connection and leaving are seen by the other", async ({
  shared,
  skip,
}) => {
  const { server, ada, lin } = await shared.seed(sharedServer)
  const owner = ada.on(shared.east)
  const { id: channel } = await owner.createChannel({ server_id: server.id, name: "hall", type: "voice" })
  const noises: string[][] = []
  const pageOf = async (person: Person, { url }: { url: string }) => {
    const { page, noise } = await openTab(skip)
    noises.push(noise)
    await page.addInitScript(`${watched}\nlocalStorage.setItem("starling.app.token", ${JSON.stringify(person.token)})`)
    await page.goto(`${url}/app#/servers/${server.id}/${channel}`)
    await page.getByText("Nobody is here yet.").or(page.getByLabel("Who is here")).first().waitFor()
    return page
  }
  const join = (page: Page) => page.getByRole("button", { name: "Join the call" }).click()
  const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true })
  /** Somebody as a page shows them. */
  const shown = (page: Page, { username }: Person) => page.locator(".participants li", { hasText: username })
  const [adas, lins] = [await pageOf(ada, shared.east), await pageOf(lin, shared.west)]
  // Nobody is asked for a microphone who has not clicked.
  expect(await adas.evaluate("asked")).toBe(0)

  // Both at once: offers meet.
  await Promise.all([join(adas), join(lins)])
  for (const page of [adas, lins]) {
    // Browsers that get little of a busy machine try again, which takes them half a minute.
    await page.getByText("In the call").waitFor({ timeout: 90_000 })
    await hearsMore(page)
    expect(await page.evaluate("connections.filter(one => one.connectionState === 'connected').length")).toBe(1)
  }
  await lins.locator(".participants li.speaking", { hasText: ada.username }).waitFor()
  await adas.locator(".in-voice .speaking").first().waitFor()

  await button(adas, "Mute").click()
  await shown(lins, ada).getByText("muted").waitFor()
  await until(
    "silence is seen",
    async () => (await lins.locator(".participants li.speaking", { hasText: ada.username }).count()) === 0,
  )
  expect(await button(adas, "Mute").getAttribute("aria-pressed")).toBe("true")
  await button(lins, "Hear nothing").click()
  await shown(adas, lin).getByText("hears nothing").waitFor()

  // The session is resumed, and the call goes on; what is changed meanwhile is told afterwards.
  await adas.evaluate("sockets.at(-1).close(4000)")
  await adas.getByText("Connection lost. Coming back …").first().waitFor()
  await button(lins, "Hear nothing").click()
  await adas.getByText("In the call").waitFor()
  await until("it is told", async () => (await shown(adas, lin).getByText("hears nothing").count()) === 0)
  await button(adas, "Mute").click()
  await until("it is told", async () => (await shown(lins, ada).getByText("muted").count()) === 0)
  for (const page of [adas, lins]) await hearsMore(page)

  // Who loads the page anew joins again: the other begins a new connection with them.
  await lins.reload()
  await until(
    "the call has ended, or is about to",
    async () => (await lins.getByRole("button", { name: "Join the call" }).count()) === 1,
  )
  await join(lins)
  for (const page of [adas, lins]) await hearsMore(page)
  await button(lins, "Devices").click()
  await lins.getByLabel("Microphone").selectOption({ index: 1 })
  await lins.getByRole("dialog").getByRole("button", { name: "Done" }).click()
  await hearsMore(adas)

  // What one may not is not offered, and who may not stay is told.
  await owner.setOverride({ channel_id: channel, target_id: lin.id, type: "member", deny: ["voice.speak"], allow: [] })
  await lins.getByText("You may only listen here.").waitFor()
  await owner.setOverride({
    channel_id: channel,
    target_id: lin.id,
    type: "member",
    deny: ["voice.connect"],
    allow: [],
  })
  await lins.getByText("You are no longer in the voice channel.").waitFor()
  await lins.getByText("You may not join this channel.").waitFor()
  await until("they are gone", async () => (await shown(adas, lin).count()) === 0)
  await button(adas, "Leave the call").click()
  await until(
    "nobody is left",
    async () => (await owner.getVoiceInfo({ channel_id: channel })).participants.length === 0,
  )
  expect(await adas.evaluate("connections.every(one => one.connectionState === 'closed')")).toBe(true)
  expect(noises.flat()).toEqual([])
})
