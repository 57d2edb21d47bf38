/** Messages between workers that come twice. While PostgreSQL or Redis is away: `dependencies-*` of tests/process. */
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
  /** What workers are asked, as it comes: what was read is trimmed within a second. */
  function askedOf(cluster: Cluster) {
    const redis = new Redis(cluster.redisUrl)
    const keys = redisKeys(cluster.redisPrefix)
    const asks = new Map<string, unknown[]>()
    return {
      async look(worker: Worker): Promise<void> {
        for (const [id, fields] of await redis.xrange(keys.inbox(worker.id), "-", "+")) {
          if (fields[0] !== "m") continue
          const messages = JSON.parse(fields[1]!) as [kind: string, ...rest: unknown[]][]
          const asked = messages.filter(([kind]) => kind === "ask")
          if (asked.length > 0) asks.set(`${worker.id} ${id}`, asked)
        }
      },
      /** All of it, once more. @returns how many */
      async repeat(to: (worker: string) => string): Promise<number> {
        for (const [key, asked] of asks)
          await redis.xadd(keys.inbox(to(key.split(" ")[0]!)), "*", "m", JSON.stringify(asked))
        return [...asks.values()].flat().length
      },
      close: () => redis.disconnect(),
    }
  }

  test("are done once while the owner lives", async ({ cluster }) => {
    const [east, west] = await cluster.boot(2, apart)
    const { ada, lin, channel } = await cluster.seed(sharedServer)
    const inbox = await lin.listen(east!)
    const asked = askedOf(cluster)
    for (let i = 0; i < 20; i++) {
      await ada.on(i % 2 === 0 ? east! : west!).createMessage({ channel_id: channel.id, content: `${i}` })
      for (const worker of [east!, west!]) await asked.look(worker)
    }
    expect(await asked.repeat(worker => worker)).toBeGreaterThanOrEqual(10)
    asked.close()
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
    const asked = askedOf(cluster)
    for (let i = 0; i < 10; i++) {
      await ada.on(other).createMessage({ channel_id: channel.id, content: `${i}` })
      await asked.look(owner)
    }
    expect(await asked.repeat(() => owner.id)).toBeGreaterThanOrEqual(10)
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
    await asked.repeat(() => other.id)
    asked.close()
    await ada.on(other).createMessage({ channel_id: channel.id, content: "last" })
    await cluster.settle()
    expect(inbox.rest().map(event => event.name === "MESSAGE_CREATE" && event.data.content)).toEqual([
      ...Array.from({ length: 10 }, (_, i) => `${i}`),
      "after",
      "last",
    ])
  })
})
