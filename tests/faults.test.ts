/** P11: what happens while PostgreSQL or Redis is away, and that everything goes on by itself afterwards; messages that come twice. */
import { connect, createServer, type AddressInfo, type Socket } from "node:net"
import { once } from "node:events"
import { Redis } from "ioredis"
import { describe } from "vitest"
import { redisKeys } from "../src/cluster/keys.ts"
import { shardOf } from "../src/domain/snowflake.ts"
import type { Cluster, Worker } from "./kit/cluster.ts"
import { sharedServer } from "./kit/seeds.ts"
import { expect, test } from "./kit/test.ts"
import { until } from "./kit/until.ts"

/** A way to a service that can be cut (connections end, new ones too) and stopped (bytes stay where they are). */
async function proxy(target: string) {
  const { hostname, port } = new URL(target)
  const pairs = new Set<[Socket, Socket]>()
  let state: "open" | "cut" | "stopped" = "open"
  let refused = 0
  const server = createServer(near => {
    if (state === "cut") {
      refused++
      near.destroy()
      return
    }
    const far = connect(Number(port), hostname)
    const pair: [Socket, Socket] = [near, far]
    pairs.add(pair)
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.setNoDelay(true)
      from.on("data", data => to.write(data))
      from.on("error", () => {})
      from.on("close", () => {
        to.destroy()
        pairs.delete(pair)
      })
      if (state === "stopped") from.pause()
    }
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const url = new URL(target)
  url.hostname = "127.0.0.1"
  url.port = String((server.address() as AddressInfo).port)
  return {
    url: url.href,
    refused: () => refused,
    connections: () => pairs.size,
    cut() {
      state = "cut"
      for (const [near, far] of pairs) {
        near.destroy()
        far.destroy()
      }
    },
    stop() {
      state = "stopped"
      for (const pair of pairs) for (const socket of pair) socket.pause()
    },
    heal() {
      state = "open"
      for (const pair of pairs) for (const socket of pair) socket.resume()
    },
    close() {
      for (const [near, far] of pairs) {
        near.destroy()
        far.destroy()
      }
      server.close()
    },
  }
}
type Proxy = Awaited<ReturnType<typeof proxy>>

async function behind(cluster: Cluster, service: "postgres" | "redis"): Promise<{ worker: Worker; way: Proxy }> {
  const way = await proxy(service === "postgres" ? cluster.databaseUrl : cluster.redisUrl)
  const [worker] = await cluster.boot(1, service === "postgres" ? { databaseUrl: way.url } : { redisUrl: way.url })
  return { worker: worker!, way }
}

const status = async (worker: Worker, path: string) => {
  const answer = await fetch(worker.url + path, { signal: AbortSignal.timeout(6_000) })
  await answer.arrayBuffer()
  return answer.status
}

describe.each(["postgres", "redis"] as const)("while %s", service => {
  test.for(["cut", "stop"] as const)(
    "is away (%s): typed refusals within 5 s, then all is well by itself",
    { timeout: 60_000 },
    async (how, { cluster }) => {
      const { worker, way } = await behind(cluster, service)
      try {
        const { ada, lin, channel } = await cluster.seed(sharedServer)
        const inbox = await lin.listen(worker)
        const post = (content: string) =>
          ada.on(worker).createMessage({ channel_id: channel.id, content, nonce: content })
        await post("before")
        way[how]()
        for (let i = 0; i < 2; i++) {
          const startedAt = performance.now()
          // One that hangs is named by its place in the list.
          const signal = AbortSignal.timeout(7_000)
          const nonce = `during ${i}`
          const outcomes = await Promise.allSettled([
            ada.on(worker).createMessage({ channel_id: channel.id, content: nonce, nonce }, { signal }),
            ada.on(worker).listMessages({ channel_id: channel.id }, { signal }),
            ada.on(worker).createServer({ name: "Meanwhile" }, { signal }),
            ada.on(worker).getMe({}, { signal }),
          ])
          // What needs nothing that is away may still be answered; nothing else is.
          expect(outcomes[0].status).toBe("rejected")
          const refusals = outcomes.map(outcome =>
            outcome.status === "rejected"
              ? ((outcome.reason as { status?: number }).status ?? String(outcome.reason))
              : 503,
          )
          expect(refusals).toEqual([503, 503, 503, 503])
          expect(performance.now() - startedAt).toBeLessThan(5_500)
        }
        await until("not ready", async () => (await status(worker, "/readyz")) === 503, { patience: 3_000 })
        expect(await status(worker, "/livez")).toBe(200)
        way.heal()
        const healedAt = performance.now()
        await until("ready again", async () => (await status(worker, "/readyz")) === 200, { patience: 10_000 })
        for (;;) {
          const done = await post("after").then(
            () => true,
            (error: { status?: number }) => {
              if (error.status !== 503) throw error
              return false
            },
          )
          if (done) break
          expect(performance.now() - healedAt).toBeLessThan(10_000)
        }
        await cluster.settle()
        const rows = await cluster.sql<
          { id: string; content: string }[]
        >`SELECT id, content FROM messages WHERE channel_id = ${channel.id} ORDER BY id`
        expect(rows.map(row => row.content)).toEqual(expect.arrayContaining(["before", "after"]))
        expect(new Set(rows.map(row => row.content)).size).toBe(rows.length)
        // Whoever listened all the while has missed nothing and heard nothing twice.
        const heard = inbox.rest().flatMap(event => (event.name === "MESSAGE_CREATE" ? [event.data.id] : []))
        expect(heard).toEqual(rows.map(row => row.id))
        expect(worker.over).toBeUndefined()
      } finally {
        way.heal()
        way.close()
        cluster.errors.splice(0)
      }
    },
  )
})

test("IDENTIFY while PostgreSQL is away is closed with 1013; the client may come again", async ({ cluster }) => {
  const { worker, way } = await behind(cluster, "postgres")
  try {
    const ada = await cluster.person("ada")
    await ada.on(worker).getMe()
    way.cut()
    const client = ada.gateway(worker)
    await expect(client.connect()).rejects.toMatchObject({ code: 1013 })
    way.heal()
    await until("READY", () =>
      client.connect().then(
        () => true,
        () => false,
      ),
    )
  } finally {
    way.heal()
    way.close()
    cluster.errors.splice(0)
  }
})

describe("P2: messages between workers that come twice", () => {
  /** Everything that workers were asked, once more. */
  async function repeatAll(cluster: Cluster, from: Worker, to: Worker): Promise<number> {
    const redis = new Redis(cluster.redisUrl)
    const keys = redisKeys(cluster.redisPrefix)
    let asks = 0
    for (const [, fields] of await redis.xrange(keys.inbox(from.id), "-", "+")) {
      const messages = (JSON.parse(fields[1]!) as [kind: string, ...rest: unknown[]][]).filter(
        ([kind]) => kind === "ask",
      )
      if (messages.length === 0) continue
      asks += messages.length
      await redis.xadd(keys.inbox(to.id), "*", "m", JSON.stringify(messages))
    }
    redis.disconnect()
    return asks
  }

  test("are done once while the owner lives", async ({ cluster }) => {
    const [east, west] = await cluster.boot(2)
    const { ada, lin, channel } = await cluster.seed(sharedServer)
    const inbox = await lin.listen(east!)
    for (let i = 0; i < 20; i++)
      await ada.on(i % 2 === 0 ? east! : west!).createMessage({ channel_id: channel.id, content: `${i}` })
    let asks = 0
    for (const worker of [east!, west!]) asks += await repeatAll(cluster, worker, worker)
    expect(asks).toBeGreaterThan(0)
    await ada.on(west!).createMessage({ channel_id: channel.id, content: "last" })
    await ada.on(east!).createMessage({ channel_id: channel.id, content: "very last" })
    await cluster.settle()
    expect(inbox.rest().map(event => event.name === "MESSAGE_CREATE" && event.data.content)).toEqual([
      ...Array.from({ length: 20 }, (_, i) => `${i}`),
      "last",
      "very last",
    ])
  })

  test("are done once after a take-over too: the answers were kept with what they did", async ({ cluster }) => {
    const [east, west] = await cluster.boot(2)
    const { ada, lin, channel } = await cluster.seed(sharedServer)
    const [row] = await cluster.sql<{ owner: string }[]>`SELECT owner FROM shards WHERE shard = ${shardOf(channel.id)}`
    const [owner, other] = row!.owner === east!.id ? [east!, west!] : [west!, east!]
    const inbox = await lin.listen(other)
    for (let i = 0; i < 10; i++) await ada.on(other).createMessage({ channel_id: channel.id, content: `${i}` })
    const keep = await repeatAll(cluster, owner, owner)
    expect(keep).toBeGreaterThanOrEqual(10)
    const redis = new Redis(cluster.redisUrl)
    const keys = redisKeys(cluster.redisPrefix)
    const asked = await redis.xrange(keys.inbox(owner.id), "-", "+")
    await owner.stop()
    await until("the other has taken over", () =>
      ada
        .on(other)
        .createMessage({ channel_id: channel.id, content: "after", nonce: "after" })
        .then(
          () => true,
          () => false,
        ),
    )
    for (const [, fields] of asked) {
      const messages = (JSON.parse(fields[1]!) as [kind: string, ...rest: unknown[]][]).filter(
        ([kind]) => kind === "ask",
      )
      if (messages.length > 0) await redis.xadd(keys.inbox(other.id), "*", "m", JSON.stringify(messages))
    }
    redis.disconnect()
    await ada.on(other).createMessage({ channel_id: channel.id, content: "last" })
    await cluster.settle()
    expect(inbox.rest().map(event => event.name === "MESSAGE_CREATE" && event.data.content)).toEqual([
      ...Array.from({ length: 10 }, (_, i) => `${i}`),
      "after",
      "last",
    ])
  })
})
