/** P1, P2, P3, P5, P6, P12: Redis comes back as another: restarted, emptied, or a copy without the last writes. */
import { describe } from "vitest"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import { openLink, type Link } from "../chaos/proxy.ts"
import type { BootOptions, Cluster, Worker } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import { connectionsOf } from "../kit/connections.ts"
import type { Listener, Person, Endpoint } from "../kit/person.ts"
import { sharedServer } from "../kit/seeds.ts"
import { ownRedis, type OwnRedis } from "../kit/services.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

/** A Redis with a copy of it, and a way for each of two workers to whichever serves. */
async function pair(cluster: Cluster) {
  const [first, copy] = await Promise.all([ownRedis(), ownRedis()])
  const portOf = ({ url }: OwnRedis) => Number(new URL(url).port)
  const replication = await openLink("replication", () => ({ host: "127.0.0.1", port: portOf(first) }))
  let serving = first
  const target = () => ({ host: "127.0.0.1", port: portOf(serving) })
  const links = [await openLink("east", target), await openLink("west", target)] as [Link, Link]
  const urls = links.map(({ port }) => `redis://127.0.0.1:${port}`)
  await copy.command("REPLICAOF", "127.0.0.1", String(replication.port))
  await until("the copy is one", async () =>
    String(await copy.command("INFO", "replication")).includes("link_status:up"),
  )
  const isCopied = async () => {
    const offset = async (redis: OwnRedis) =>
      /(?:slave_repl|master_repl)_offset:(\d+)/.exec(String(await redis.command("INFO", "replication")))![1]
    return (await offset(copy)) === (await offset(first))
  }
  const boot = async (topology: BootOptions["topology"] = {}): Promise<[Worker, Worker]> => {
    const [east] = await cluster.boot(1, { redisUrl: urls[0]!, topology, unbalanced: true, mortal: true })
    const [west] = await cluster.boot(1, { redisUrl: urls[1]!, topology, mortal: true })
    return [east!, west!]
  }
  return {
    first,
    copy,
    links,
    boot,
    /** From now on the copy stays as it is. */
    async freeze() {
      await until("the copy has everything", isCopied)
      replication.set({ lost: "replies" })
    },
    /** Where new connections go. */
    point(to: OwnRedis) {
      serving = to
      for (const link of links) link.reset()
    },
    async failOver() {
      await first.kill()
      await copy.command("REPLICAOF", "NO", "ONE")
      this.point(copy)
    },
    async close() {
      await Promise.all([...links, replication].map(link => link.close()))
      await Promise.all([first, copy].map(redis => redis.close()))
    },
  }
}

/** Sends until it is acknowledged. */
async function post(person: Person, at: Endpoint, channel_id: string, content: string): Promise<string> {
  const refusals = new Map<string, number>()
  for (const end = performance.now() + 90_000; ;) {
    try {
      return (await person.on(at).createMessage({ channel_id, content, nonce: content })).id
    } catch (error) {
      const { status, message } = error as { status?: number; message: string }
      if (status !== 503) throw error
      if (performance.now() > end)
        throw new Error(`never acknowledged: ${JSON.stringify([...refusals])}`, { cause: error })
      refusals.set(message, (refusals.get(message) ?? 0) + 1)
    }
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

/** A worker that knows of another Redis before the others refuses for a moment. */
async function resume(inbox: Listener, at: Endpoint): Promise<void> {
  for (const end = performance.now() + 30_000; ;) {
    try {
      return await inbox.reconnect(at.url)
    } catch (error) {
      if ((error as { code?: number }).code !== 1013 || performance.now() > end) throw error
    }
    await new Promise(resolve => setTimeout(resolve, 100))
  }
}

const heard = (inbox: Listener) =>
  inbox.rest().flatMap(event => (event.name === "MESSAGE_CREATE" ? [event.data.id] : []))
const history = async (cluster: Cluster, channel: string) =>
  (await cluster.sql<{ id: string }[]>`SELECT id FROM messages WHERE channel_id = ${channel} ORDER BY id`).map(
    ({ id }) => id,
  )

async function compared(workers: readonly Worker[]): Promise<boolean> {
  const values = await Promise.all(
    workers.map(async ({ metrics }) => {
      const metric = metrics.registry.getSingleMetric("starling_outbox_comparisons_total")!
      const found = (await metric.get()) as unknown as { values: { value: number }[] }
      return found.values[0]!.value
    }),
  )
  return values.every(value => value > 0)
}

const serves = async ({ url }: Worker) => {
  const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(5_000) })
  await answer.arrayBuffer()
  return answer.status === 200
}

async function recovered(workers: readonly Worker[]): Promise<void> {
  await until(
    "every worker has compared and serves",
    async () => {
      return (await compared(workers)) && (await Promise.all(workers.map(serves))).every(Boolean)
    },
    { timeoutMs: 60_000 },
  )
}

type Pair = Awaited<ReturnType<typeof pair>>

const losses: [what: string, before: (redis: Pair) => Promise<void>, lose: (redis: Pair) => Promise<void>][] = [
  [
    "is killed and comes back with its append-only file",
    async () => {},
    async redis => {
      await redis.first.kill()
      await redis.first.start()
    },
  ],
  [
    "is killed and comes back with nothing",
    async () => {},
    async redis => {
      await redis.first.kill()
      await redis.first.startEmpty()
    },
  ],
  ["fails over to a copy that lacks the last writes", redis => redis.freeze(), redis => redis.failOver()],
  [
    "fails over to a copy that was reached before it took over",
    redis => redis.freeze(),
    async redis => {
      redis.point(redis.copy)
      await redis.first.kill()
      await new Promise(resolve => setTimeout(resolve, 300)) // connections are tried again and refused
      await redis.copy.command("REPLICAOF", "NO", "ONE")
    },
  ],
]

describe.each(losses)("when Redis %s", (_, before, lose) => {
  test(
    "OUT4: live sessions go on, with everything once and in order; what follows is resumed anywhere",
    {
      timeout: 180_000,
    },
    async ({ cluster }) => {
      const redis = await pair(cluster)
      try {
        const [east, west] = await redis.boot()
        const { ada, lin, channel } = await cluster.seed(() => sharedServer(cluster, east))
        const [atEast, atWest] = await Promise.all([lin.listen(east), ada.listen(west)])
        const acked: string[] = []
        const say = async (content: string) => {
          const id = await post(ada, acked.length % 2 === 0 ? east : west, channel.id, content)
          acked.push(id)
        }
        for (let i = 0; i < 10; i++) await say(`before ${i}`)
        await before(redis)
        // A session and an interest that the copy never hears of.
        const mia = await cluster.person("mia", west)
        const own = await mia.on(west).createServer({ name: "Unheard of" })
        const [hers] = await mia.on(west).listChannels({ server_id: own.id })
        const late = await mia.listen(east)
        for (let i = 0; i < 10; i++) await say(`unsaved ${i}`)
        await post(mia, west, hers!.id, "mine")
        await cluster.settle()
        const sessions = [atEast, atWest, late].map(({ sessionId }) => sessionId)

        const lost = lose(redis)
        for (let i = 0; i < 10; i++) await say(`meanwhile ${i}`)
        await lost
        await recovered([east, west])
        const redisUrl = `redis://127.0.0.1:${redis.links[0].port}`
        for (const { id } of [lin, ada, mia])
          await until("connections are counted again", async () => {
            return (await connectionsOf({ redisUrl, redisPrefix: cluster.redisPrefix }, id)) === 1
          })
        for (let i = 0; i < 10; i++) await say(`after ${i}`)
        await post(mia, west, hers!.id, "mine too")
        await cluster.settle()
        expect([east.over, west.over]).toEqual([undefined, undefined])
        const all = await history(cluster, channel.id)
        expect(new Set(all).size).toBe(all.length)
        expect(acked.filter(id => !all.includes(id))).toEqual([])
        expect(all).toEqual(acked) // one sender: the order of the sends
        expect([atEast, atWest, late].map(({ state }) => state)).toEqual(["live", "live", "live"])
        for (const inbox of [atEast, atWest]) expect(heard(inbox)).toEqual(all)
        expect(heard(late)).toEqual(await history(cluster, hers!.id))

        // On the same worker, and on the other one, though what came last is in the memory of the first alone.
        for (const [inbox, place] of [
          [atEast, east],
          [atWest, east],
          [late, west],
        ] as const) {
          inbox.drop()
          await say(`missed at ${place.slot}`)
          await resume(inbox, place)
        }
        await cluster.settle()
        expect([atEast, atWest, late].map(({ sessionId }) => sessionId)).toEqual(sessions)
        const more = (await history(cluster, channel.id)).slice(all.length)
        for (const inbox of [atEast, atWest]) expect(heard(inbox)).toEqual(more)
      } finally {
        cluster.errors.splice(0)
        await cluster.close()
        await redis.close()
      }
    },
  )
})

test(
  "P5: what stood in a log that its worker had not read is sent again, though nothing follows it",
  {
    timeout: 180_000,
  },
  async ({ cluster }) => {
    const redis = await pair(cluster)
    try {
      const [east, west] = await redis.boot()
      const [ada, lin] = await Promise.all([cluster.person("ada", west), cluster.person("lin", west)])
      const ownerOf = async (id: string) =>
        (await cluster.sql<{ owner: string }[]>`SELECT owner FROM shards WHERE shard = ${shardOf(id)}`)[0]!.owner
      let server = await ada.on(west).createServer({ name: "Of west" })
      while ((await ownerOf(server.id)) !== west.id) server = await ada.on(west).createServer({ name: "Of west" })
      const [channel] = await ada.on(west).listChannels({ server_id: server.id })
      const { code } = await ada.on(west).createInvite({ channel_id: channel!.id })
      await lin.on(west).joinByInvite({ invite_code: code })
      const inbox = await lin.listen(east)
      await post(ada, west, channel!.id, "first")
      await cluster.settle()
      await redis.freeze()
      // East hears nothing of what is appended to its log.
      redis.links[0].set({ lost: "replies" })
      await post(ada, west, channel!.id, "unread 1")
      await post(ada, west, channel!.id, "unread 2")
      expect(heard(inbox)).toHaveLength(1)
      await redis.first.kill()
      await redis.copy.command("REPLICAOF", "NO", "ONE")
      redis.point(redis.copy)
      redis.links[0].set({})
      await recovered([east, west])
      await cluster.settle()
      expect((await history(cluster, channel!.id)).slice(1)).toEqual(heard(inbox))
      expect(inbox.state).toBe("live")
    } finally {
      cluster.errors.splice(0)
      await cluster.close()
      await redis.close()
    }
  },
)

test(
  "an owner that ends in the fail-over takes its interests with it: the next one asks the workers",
  {
    timeout: 180_000,
  },
  async ({ cluster }) => {
    const redis = await pair(cluster)
    try {
      const [east, west] = await redis.boot()
      await redis.freeze()
      const { ada, lin, channel } = await cluster.seed(() => sharedServer(cluster, east))
      // Servers of both owners.
      const others = await Promise.all(
        Array.from({ length: 8 }, (_, i) => ada.on(east).createServer({ name: `s${i}` })),
      )
      const inbox = await ada.listen(east)
      await post(ada, east, channel.id, "before")
      await cluster.settle()
      await redis.first.kill()
      await west.stop()
      await redis.copy.command("REPLICAOF", "NO", "ONE")
      redis.point(redis.copy)
      await recovered([east])
      await cluster.balanced()
      const said = [await post(lin, east, channel.id, "after")]
      for (const { id } of others) {
        const [channel] = await ada.on(east).listChannels({ server_id: id })
        said.push(await post(ada, east, channel!.id, "after"))
      }
      await cluster.settle()
      expect(heard(inbox).slice(1).toSorted()).toEqual(said.toSorted())
    } finally {
      cluster.errors.splice(0)
      await cluster.close()
      await redis.close()
    }
  },
)

test(
  "LOG1, P5: a worker that began after the fail-over leaves a log from which its sessions go on",
  {
    timeout: 60_000,
  },
  async ({ cluster }) => {
    const redis = await ownRedis()
    try {
      const [east] = await cluster.boot(1, { redisUrl: redis.url, mortal: true })
      await redis.kill()
      await redis.start()
      await recovered([east!])
      const [west] = await cluster.boot(1, { redisUrl: redis.url, mortal: true })
      const { ada, lin, channel } = await cluster.seed(() => sharedServer(cluster, east))
      const inbox = await lin.listen(west!)
      const { sessionId } = inbox
      const said = [await post(ada, east!, channel.id, "before")]
      await cluster.settle()
      inbox.drop()
      await west!.stop()
      said.push(await post(ada, east!, channel.id, "missed"))
      await inbox.reconnect(east!.url)
      expect(inbox.sessionId).toBe(sessionId)
      await cluster.settle()
      expect(heard(inbox)).toEqual(said)
    } finally {
      cluster.errors.splice(0)
      await cluster.close()
      await redis.close()
    }
  },
)

test(
  "a Redis that gets its first copy becomes another for all workers, not only for those that connect after it",
  {
    timeout: 180_000,
  },
  async ({ cluster }) => {
    const [first, copy] = await Promise.all([ownRedis(), ownRedis()])
    const port = Number(new URL(first.url).port)
    const links = [
      await openLink("east", () => ({ host: "127.0.0.1", port })),
      await openLink("west", () => ({ host: "127.0.0.1", port })),
    ]
    const idOf = async () => /master_replid:(\w+)/.exec(String(await first.command("INFO", "replication")))![1]
    try {
      const urls = links.map(link => `redis://127.0.0.1:${link.port}`)
      const [east] = await cluster.boot(1, { redisUrl: urls[0]!, unbalanced: true, mortal: true })
      const [west] = await cluster.boot(1, { redisUrl: urls[1]!, mortal: true })
      const { ada, lin, channel } = await cluster.seed(() => sharedServer(cluster, east))
      const inboxes = [await lin.listen(east!), await ada.listen(west!)]
      const said = [await post(ada, east!, channel.id, "before")]
      const before = await idOf()
      await copy.command("REPLICAOF", "127.0.0.1", String(port))
      await until("it has another id", async () => (await idOf()) !== before)
      links[0]!.reset()
      for (let i = 0; i < 10; i++) said.push(await post(ada, i % 2 === 0 ? east! : west!, channel.id, `after ${i}`))
      // A worker whose connection stands notices it later.
      const all: string[][] = inboxes.map(() => [])
      await until("everybody has heard everything", () => {
        for (const [i, inbox] of inboxes.entries()) all[i]!.push(...heard(inbox))
        return all.every(ids => ids.length >= said.length)
      })
      await cluster.settle()
      for (const [i, inbox] of inboxes.entries()) expect([...all[i]!, ...heard(inbox)]).toEqual(said)
      expect([east!.over, west!.over]).toEqual([undefined, undefined])
    } finally {
      cluster.errors.splice(0)
      await cluster.close()
      await Promise.all(links.map(link => link.close()))
      await Promise.all([first, copy].map(redis => redis.close()))
    }
  },
)

test(
  "TOK3, P12: a session that was ended stays ended, though the copy has it in its cache and not its end",
  {
    timeout: 180_000,
  },
  async ({ cluster }) => {
    const redis = await pair(cluster)
    try {
      const [east, west] = await redis.boot({ actors: { outboxKeepMs: 100, outboxSweepEveryMs: 50 } })
      const ada = await cluster.person("ada", east)
      const second = await ada.signIn(east)
      await Promise.all([east, west].flatMap(place => [ada.on(place).getMe(), second.on(place).getMe()]))
      await redis.freeze()
      await ada.on(east).logout()
      // The end is too long ago to be said again.
      await second.signIn(east)
      await until("the outbox has forgotten it", async () => {
        const rows = await cluster.sql<{ body: string }[]>`SELECT body FROM outbox`
        return rows.every(({ body }) => !body.includes('["r",'))
      })
      await redis.failOver()
      await recovered([east, west])
      for (const place of [east, west]) {
        expect(await refusal(ada.on(place).getMe())).toBe("revoked_token")
        expect((await second.on(place).getMe()).id).toBe(ada.id)
        await expect(ada.gateway(place).connect()).rejects.toMatchObject({ code: 4004 })
      }
    } finally {
      cluster.errors.splice(0)
      await cluster.close()
      await redis.close()
    }
  },
)

test(
  "P6: when everything in Redis is deleted, the sessions are closed, told so, and begin anew with nothing lost",
  {
    timeout: 180_000,
  },
  async ({ cluster }) => {
    const redis = await pair(cluster)
    try {
      const [east, west] = await redis.boot()
      const { ada, lin, channel } = await cluster.seed(() => sharedServer(cluster, east))
      const inbox = await lin.listen(east)
      const before = inbox.sessionId
      let told = 0
      inbox.on("invalid_session", () => told++)
      await post(ada, west, channel.id, "before")
      await cluster.settle()
      await redis.first.command("FLUSHALL")
      expect(await inbox.ended()).toMatchObject({ code: 1012 })
      await until("both incarnations are over", () => east.over !== undefined && west.over !== undefined)
      const [next] = await redis.boot()
      await inbox.reconnect(next.url)
      expect({ told, isNew: inbox.sessionId !== before }).toEqual({ told: 1, isNew: true })
      const id = await post(ada, next, channel.id, "after")
      await cluster.settle()
      expect(heard(inbox).at(-1)).toBe(id)
      expect(await history(cluster, channel.id)).toHaveLength(2)
    } finally {
      cluster.errors.splice(0)
      await cluster.close()
      await redis.close()
    }
  },
)
