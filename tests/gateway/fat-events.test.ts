/**
 * P5, P9, P11: messages as large as may be sent, over a slow way to Redis. Those of other servers
 * resume, and are answered, as if there were none.
 */
import { setTimeout as sleep } from "node:timers/promises"
import { limits } from "../../src/contract/core/limits.ts"
import { openRedis } from "../../src/cluster/redis.ts"
import { openLink } from "../chaos/proxy.ts"
import type { Cluster } from "../kit/cluster.ts"
import { machineBounds } from "../kit/load.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"

/** 57 kB in UTF-8, nearly as much as may be. */
const fat = (n: number) => ({
  content: "漢".repeat(limits.messageCharacters),
  embeds: [{ filler: "漢".repeat(limits.embed.allBytes / 3 - 100) }],
  nonce: `fat ${n}`,
})
const fatMessages = 300
const bystanders = 20

/** Looks again and again how much Redis holds back for each connection of a worker, in bytes. */
async function watchBuffers({ redisUrl }: Cluster, worker: string) {
  const redis = openRedis(redisUrl, "looking", () => {})
  await redis.connect()
  const most = new Map<string, number>()
  const over = new AbortController()
  const watching = (async () => {
    while (!over.signal.aborted) {
      for (const line of String(await redis.client("LIST")).split("\n")) {
        const name = /name=(\S+)/.exec(line)?.[1] ?? ""
        if (name.startsWith(worker)) most.set(name, Math.max(most.get(name) ?? 0, Number(/omem=(\d+)/.exec(line)?.[1])))
      }
      await sleep(10)
    }
    redis.disconnect()
  })()
  return async () => {
    over.abort()
    await watching
    return most
  }
}

test(
  "P5, P9, P11, LOGREAD1, OWN1: bystanders resume while fat messages are read back, and strangers' posts are answered",
  { timeout: 120_000 },
  async ({ cluster }) => {
    const url = new URL(cluster.redisUrl)
    const target = { host: url.hostname, port: Number(url.port) }
    const link = await openLink("redis", () => target)
    url.host = `127.0.0.1:${link.port}`
    try {
      const [worker] = await cluster.boot(1, {
        redisUrl: url.href,
        topology: { log: { memoryBytes: 1024 * 1024 } },
      })
      const fatOnes = await cluster.seed(sharedServer)
      const others = await cluster.seed(sharedServer)
      const { ada: stranger, lin: member, channel } = others
      const own = await fatOnes.lin.listen(worker!)
      const inboxes = await Promise.all(Array.from({ length: bystanders }, () => member.listen(worker!)))
      const sessions = inboxes.map(inbox => inbox.sessionId)
      for (const inbox of inboxes) inbox.drop()

      const bound = machineBounds()
      link.set({ bandwidth: 4 * 1024 * 1024 })
      const buffers = await watchBuffers(cluster, worker!.id)
      const said: string[] = []
      const waits: number[] = []
      const over = new AbortController()
      const strangers = (async () => {
        while (!over.signal.aborted) {
          const content = `small ${said.length}`
          const sentAt = performance.now()
          await stranger.on(worker!).createMessage({ channel_id: channel.id, content, nonce: content })
          waits.push(performance.now() - sentAt)
          said.push(content)
          await sleep(50)
        }
      })()
      const flood = async (from: number, to: number) => {
        for (let n = from; n < to; n += 10)
          await Promise.all(
            Array.from({ length: 10 }, (_, i) =>
              fatOnes.ada.on(worker!).createMessage({ channel_id: fatOnes.channel.id, ...fat(n + i) }),
            ),
          )
      }
      await flood(0, fatMessages)
      waits.splice(0)

      // All come back at once, and it goes on.
      await Promise.all([...inboxes.map(inbox => inbox.reconnect(worker!.url)), flood(fatMessages, fatMessages + 40)])
      over.abort()
      await strangers
      for (const [i, inbox] of inboxes.entries()) {
        const heard: string[] = []
        while (heard.at(-1) !== said.at(-1))
          heard.push((await inbox.next("MESSAGE_CREATE", { timeoutMs: bound(20_000) })).content!)
        expect(heard).toEqual(said)
        expect(inbox.sessionId).toBe(sessions[i])
      }
      expect(Math.max(...(await buffers()).values())).toBeLessThan(3 * 1024 * 1024)
      expect(Math.max(...waits)).toBeLessThan(bound(1_000))
      expect(own.isListening).toBe(true)
      expect(worker!.over).toBeUndefined()
    } finally {
      link.set({})
      await cluster.close()
      await link.close()
    }
  },
)

test(
  "P5: a resume on another worker brings the fattest messages once and in order",
  { timeout: 60_000 },
  async ({ cluster }) => {
    const [east, west] = await cluster.boot(2)
    const { ada, lin, channel } = await cluster.seed(sharedServer)
    const inbox = await lin.listen(east!)
    const session = inbox.sessionId
    inbox.drop()
    const sent: string[] = []
    for (let n = 0; n < 60; n += 10) {
      const messages = Array.from({ length: 10 }, (_, i) =>
        ada.on(east!).createMessage({ channel_id: channel.id, ...fat(n + i) }),
      )
      sent.push(...(await Promise.all(messages)).map(({ id }) => id))
    }
    await inbox.reconnect(west!.url)
    const heard: string[] = []
    while (heard.length < sent.length) heard.push((await inbox.next("MESSAGE_CREATE", { timeoutMs: 15_000 })).id)
    expect(inbox.sessionId).toBe(session)
    // Ids rise in the order in which messages were taken.
    expect(heard).toEqual(sent.toSorted((a, b) => Number(BigInt(a) - BigInt(b))))
    await cluster.settle()
    expect(inbox.rest().filter(({ name }) => name === "MESSAGE_CREATE")).toEqual([])
  },
)
