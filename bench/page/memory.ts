/** What a tab holds by the minute, while messages arrive and its reader goes from channel to channel. */
import type { Browser } from "playwright-core"
import { createClient } from "../../client/client.ts"
import type { Harness, Starling } from "../harness.ts"
import { placeOf } from "./places.ts"
import { Tab } from "./tab.ts"

export const defaultRate = 10
/** The channel that is open is another one after so many seconds. */
const switchSeconds = 10
/** Into which messages go by turns. Where they are more than the usual ones all go to one, which stays open. */
const channelsFor = (rate: number) => (rate > defaultRate ? 1 : 5)
const authors = 20
const keptMessages = 360

export interface MemoryMinute {
  readonly minute: number
  readonly heapMb: number
  readonly nodes: number
}

export interface Memory {
  readonly minutes: readonly MemoryMinute[]
  readonly messages: number
  /** Messages a second, and the channels that they went to. */
  readonly rate: number
  readonly channels: number
  /** By least squares, without the first minute: what an hour would add. */
  readonly heapMbPerHour: number
  readonly nodesPerHour: number
}

export async function benchMemory(
  { harness, starling, browser }: { harness: Harness; starling: Starling; browser: Browser },
  { minutes, rate }: { minutes: number; rate: number },
  say: (what: string) => void,
): Promise<Memory> {
  const channels = channelsFor(rate)
  // The reader owns the server, so they can make channels in it.
  const [reader, ...senders] = harness.population.audience.posters
  const first = reader!.path.split("/")[4]!
  const server = (await placeOf(harness.databaseUrl, first)).split("/")[2]!
  const owner = createClient({ baseUrl: starling.url, token: reader!.token })
  const others = await Promise.all(
    Array.from({ length: channels - 1 }, (_, i) => owner.createChannel({ server_id: server, name: `channel-${i}` })),
  )
  const places = [first, ...others.map(({ id }) => id)]
  const clients = senders.slice(0, authors).map(({ token }) => createClient({ baseUrl: starling.url, token }))
  const post = (i: number) =>
    clients[i % authors]!.createMessage({
      channel_id: places[i % channels]!,
      content: `line ${i} of an hour, with **some** words and a \`name\` in it`,
    })
  const tab = await Tab.open(browser, starling.url, reader!.token)
  try {
    await tab.page.locator(".dot.live").waitFor()
    const found: MemoryMinute[] = []
    let sent = 0
    say("filling the channels")
    for (const place of places) {
      await tab.go(`#/servers/${server}/${place}`)
      await tab.page.locator(".beginning").waitFor()
    }
    // As many as the page keeps of each, so that the first minute is like the others.
    for (; sent < channels * keptMessages; sent += 20)
      await Promise.all(Array.from({ length: 20 }, (_, k) => post(sent + k)))
    const beganAt = performance.now()
    for (let second = 0; second < minutes * 60; second++) {
      if (channels > 1 && second % switchSeconds === 0)
        await tab.go(`#/servers/${server}/${places[(second / switchSeconds) % channels]!}`)
      await Promise.all(Array.from({ length: rate }, () => post(sent++)))
      const restMs = beganAt + (second + 1) * 1_000 - performance.now()
      if (restMs < -30_000) throw new Error("the server, or this machine, was more than half a minute late")
      if (restMs > 0) await new Promise(resolve => setTimeout(resolve, restMs))
      if (second % 60 !== 59) continue
      const minute = { minute: (second + 1) / 60, ...(await tab.held()) }
      say(`minute ${minute.minute}: ${minute.heapMb.toFixed(2)} MB, ${minute.nodes} nodes`)
      found.push(minute)
    }
    const settled = found.length > 2 ? found.slice(1) : found
    return {
      minutes: found,
      messages: sent,
      rate,
      channels,
      heapMbPerHour: 60 * slope(settled.map(({ minute, heapMb }) => [minute, heapMb])),
      nodesPerHour: 60 * slope(settled.map(({ minute, nodes }) => [minute, nodes])),
    }
  } finally {
    await tab.close()
  }
}

/** Of the line that is nearest to the points, by least squares. */
function slope(points: readonly (readonly [x: number, y: number])[]): number {
  const mean = (of: 0 | 1) => points.reduce((sum, point) => sum + point[of], 0) / points.length
  const [meanX, meanY] = [mean(0), mean(1)]
  const above = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0)
  const below = points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0)
  return below === 0 ? 0 : above / below
}
