/** P18: what a worker does again and again leaves nothing behind: memory, streams, outbox rows. */
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { Redis } from "ioredis"
import { redisKeys } from "../../src/cluster/keys.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

/** What is forgotten in minutes elsewhere is forgotten in moments here. */
const topology = {
  actors: { outboxKeepMs: 500, outboxSweepEveryMs: 100, sleepAfterMs: 1_000 },
  log: { keepMs: 1_000, markEveryMs: 100, memoryBytes: 200_000 },
  gateway: { resumeWindowMs: 1_500, positionAfterMs: 500 },
}
const rounds = 3
const messagesARound = 1_000
/**
 * What V8 and its caches come and go by; one leaked object of 100 bytes a message would be ten
 * times as much.
 */
const noiseBytes = 6_000_000

setFlagsFromString("--expose-gc")
const collectGarbage = runInNewContext("gc") as () => void

async function heapBytes(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    collectGarbage()
    await new Promise(resolve => setImmediate(resolve))
  }
  return process.memoryUsage().heapUsed
}

test(
  "P18: a long run does not grow: memory, logs, inboxes and outbox stay bounded",
  { timeout: 180_000 },
  async ({ cluster }) => {
    const workers = await cluster.boot(2, { topology })
    const { channel, server, ada, lin } = await cluster.seed(sharedServer)
    const redis = new Redis(cluster.redisUrl)
    const keys = redisKeys(cluster.redisPrefix)
    const inbox = await lin.listen(workers[1]!)
    let heard = 0
    inbox.on("MESSAGE_CREATE", () => heard++)
    const rejections: unknown[] = []
    const onRejection = (reason: unknown) => rejections.push(reason)
    process.on("unhandledRejection", onRejection)

    let sent = 0
    async function round(): Promise<void> {
      for (let i = 0; i < messagesARound / 50; i++) {
        await Promise.all(
          Array.from({ length: 50 }, () => {
            const content = `m${sent++}`
            return ada.on(workers[sent % 2]!).createMessage({ channel_id: channel.id, content, nonce: content })
          }),
        )
      }
      // Sessions come and go, and so does a member.
      const visitor = await lin.listen(workers[0]!)
      visitor.close()
      const { code } = await ada.on(workers[0]!).createInvite({ channel_id: channel.id })
      const guest = await cluster.person("guest", workers[0])
      await guest.on(workers[1]!).joinByInvite({ invite_code: code })
      await guest.on(workers[0]!).leaveServer({ server_id: server.id })
      await until("everything was heard", () => heard === sent)
      inbox.rest()
    }
    const kept = async () => {
      const lengths = await Promise.all(
        workers.flatMap(({ id }) => [redis.xlen(keys.log(id)), redis.xlen(keys.inbox(id))]),
      )
      const [row] = await cluster.sql<{ n: number }[]>`SELECT count(*)::int AS n FROM outbox`
      return { entries: lengths.reduce((sum, length) => sum + length, 0), outbox: row!.n }
    }

    // The first rounds fill pools and caches, and are compiled.
    await round()
    await round()
    await new Promise(resolve => setTimeout(resolve, 2_500))
    const before = { heap: await heapBytes(), ...(await kept()) }
    for (let i = 0; i < rounds; i++) await round()
    const shards = 40
    await until(
      "what was published is forgotten",
      async () => {
        const { entries, outbox } = await kept()
        // The newest row of a shard stays, and a stream is trimmed by whole nodes.
        return outbox <= shards && entries <= before.entries + 1_000
      },
      { timeoutMs: 20_000 },
    )
    await new Promise(resolve => setTimeout(resolve, 2_500))
    const after = await heapBytes()

    process.off("unhandledRejection", onRejection)
    redis.disconnect()
    expect(rejections).toEqual([])
    expect(sent).toBe((rounds + 2) * messagesARound)
    expect(after - before.heap).toBeLessThan(noiseBytes)
  },
)
