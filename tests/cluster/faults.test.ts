/** Messages between workers that come twice. While PostgreSQL or Redis is away: dependencies-postgres.test.ts and dependencies-redis.test.ts. */
import { Redis } from "ioredis"
import { describe } from "vitest"
import { redisKeys } from "../../src/cluster/keys.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import type { Cluster, Worker } from "../kit/cluster.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

/** Workers that talk through Redis, as those of two hosts do. */
const apart = { socketFolder: undefined }

describe("P2: messages between workers that come twice", () => {
  /** Everything that workers were asked, once more. */
  async function repeatAll(cluster: Cluster, from: Worker, to: Worker): Promise<number> {
    const redis = new Redis(cluster.redisUrl)
    const keys = redisKeys(cluster.redisPrefix)
    let asks = 0
    for (const [, fields] of await redis.xrange(keys.inbox(from.id), "-", "+")) {
      if (fields[0] !== "m") continue
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
    const [east, west] = await cluster.boot(2, apart)
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
    const [east, west] = await cluster.boot(2, apart)
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
      if (fields[0] !== "m") continue
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
